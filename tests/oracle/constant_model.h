// SPDX-License-Identifier: MIT
// A target with the same row at every position, so that results can be computed by hand.
#pragma once

#include "ref/models/model.h"

namespace draftproof {

class ConstantModel final : public OneByOneModel {
 public:
  explicit ConstantModel(std::vector<float> row) : row_(std::move(row)) {}
  int vocabulary() const override { return static_cast<int>(row_.size()); }
  int context() const override { return 1000; }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return std::make_unique<Cache>(std::vector<std::unique_ptr<LayerCache>>{}, capacity, max_pending_rows);
  }

 private:
  void forward_one(const Segment& segment, Outputs& outputs) override {
    outputs.logits.clear();
    outputs.features.clear();
    for (int row = 0; row < segment.rows_wanted(); ++row) {
      outputs.logits.insert(outputs.logits.end(), row_.begin(), row_.end());
    }
    segment.cache->wrote(segment.rows());
  }

  std::vector<float> row_;
};

}  // namespace draftproof
