// SPDX-License-Identifier: MIT
#include "ref/drafts/fitted_model.h"

#include <algorithm>
#include <limits>

namespace draftproof {

void FittedModel::forward(std::span<const Segment> batch, Outputs& outputs) {
  const int own = inner_->vocabulary();
  tokens_.clear();
  for (const Segment& segment : batch) {
    for (const Token token : segment.tokens) tokens_.push_back(token < own ? token : 0);
  }
  std::vector<Segment> segments(batch.begin(), batch.end());
  std::size_t first = 0;
  for (Segment& segment : segments) {
    segment.tokens = std::span<const Token>(tokens_).subspan(first, segment.tokens.size());
    first += segment.tokens.size();
  }
  inner_->forward(segments, inner_outputs_);

  outputs.lay_out(batch, vocabulary_, hidden());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const SegmentOutput& from = inner_outputs_.segments[i];
    SegmentOutput& to = outputs.segments[i];
    to.error = from.error;
    std::ranges::copy(from.features, to.features.begin());
    for (int row = 0; row < batch[i].rows_wanted(); ++row) {
      const auto known = from.logits_row(row, own).first(static_cast<std::size_t>(std::min(own, vocabulary_)));
      const auto fitted = to.logits.subspan(static_cast<std::size_t>(row) * static_cast<std::size_t>(vocabulary_),
                                            static_cast<std::size_t>(vocabulary_));
      std::fill(std::ranges::copy(known, fitted.begin()).out, fitted.end(), -std::numeric_limits<float>::infinity());
    }
  }
}

}  // namespace draftproof
