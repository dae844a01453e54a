// SPDX-License-Identifier: MIT
#include "ref/models/serial.h"

namespace draftproof {

void SerialModel::forward_one(const Segment& segment, Outputs& outputs) {
  outputs.logits.clear();
  outputs.features.clear();
  for (std::size_t row = 0; row < segment.tokens.size(); ++row) {
    Segment one = segment;
    one.tokens = segment.tokens.subspan(row, 1);
    if (!segment.depths.empty()) one.depths = segment.depths.subspan(row, 1);
    one.logits_from = static_cast<int>(row) < segment.logits_from ? 1 : 0;
    forward_alone(inner_, one, row_);
    outputs.logits.insert(outputs.logits.end(), row_.logits.begin(), row_.logits.end());
    outputs.features.insert(outputs.features.end(), row_.features.begin(), row_.features.end());
  }
}

}  // namespace draftproof
