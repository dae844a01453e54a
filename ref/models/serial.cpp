// SPDX-License-Identifier: MIT
#include "ref/models/serial.h"

namespace draftproof {

void SerialModel::forward_one(const Segment& segment, Outputs& outputs) {
  outputs.logits.clear();
  outputs.features.clear();
  const auto read = [&](std::size_t first, std::size_t count, int logits_from) {
    Segment some = segment;
    some.tokens = segment.tokens.subspan(first, count);
    if (!segment.depths.empty()) some.depths = segment.depths.subspan(first, count);
    some.logits_from = logits_from;
    forward_alone(inner_, some, rows_);
    outputs.logits.insert(outputs.logits.end(), rows_.logits.begin(), rows_.logits.end());
    outputs.features.insert(outputs.features.end(), rows_.features.begin(), rows_.features.end());
  };
  const auto unwanted = static_cast<std::size_t>(segment.logits_from);
  if (unwanted > 0) read(0, unwanted, segment.logits_from);
  for (std::size_t row = unwanted; row < segment.tokens.size(); ++row) read(row, 1, 0);
}

}  // namespace draftproof
