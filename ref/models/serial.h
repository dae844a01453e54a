// SPDX-License-Identifier: MIT
// A model that reads the rows whose logits are wanted one by one: serial verification. Bits are those of the model
// inside, at the cost of one forward pass per row.
#pragma once

#include "ref/models/model.h"

namespace draftproof {

class SerialModel final : public OneByOneModel {
 public:
  /// `inner` outlives this model.
  explicit SerialModel(Model& inner) : inner_(inner) {}

  int vocabulary() const override { return inner_.vocabulary(); }
  int context() const override { return inner_.context(); }
  int layers() const override { return inner_.layers(); }
  int hidden() const override { return inner_.hidden(); }
  const Embeddings* embeddings() const override { return inner_.embeddings(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return inner_.new_cache(capacity, max_pending_rows);
  }

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override;

  Model& inner_;
  Outputs rows_;
};

}  // namespace draftproof
