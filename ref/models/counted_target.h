// SPDX-License-Identifier: MIT
// Stands for the target of a head that is only counted (WeightLoader::Mode::count), which takes the same whatever the
// target's weights are. It lends everything, and aborts where it is run.
#pragma once

#include "ref/base/require.h"
#include "ref/models/model.h"

namespace draftproof {

class CountedTarget final : public Model, public Embeddings {
 public:
  CountedTarget(int hidden, int vocabulary) : hidden_(hidden), vocabulary_(vocabulary) {}

  int vocabulary() const override { return vocabulary_; }
  int context() const override { return 1; }
  int layers() const override { return 1; }
  int hidden() const override { return hidden_; }
  const Embeddings* embeddings() const override { return this; }

  std::unique_ptr<Cache> new_cache(int, int) const override { refuse(); }
  void forward(std::span<const Segment>, Outputs&) override { refuse(); }
  void embed(std::span<const Token>, float*) const override { refuse(); }
  void normalize(const float*, int, float*) const override { refuse(); }
  bool unembed(const float*, int, PackedActivations&, float*) const override { refuse(); }
  void head_row(Token, float*) const override { refuse(); }
  void attend(int, const AttentionShape&, int, std::span<const LentRows>, AttentionScratch&) const override {
    refuse();
  }

 private:
  [[noreturn]] static void refuse() {
    require_failed(__FILE__, __LINE__, "run", "a target that stands for another in counting is not run");
  }

  int hidden_;
  int vocabulary_;
};

}  // namespace draftproof
