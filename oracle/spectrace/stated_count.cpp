// SPDX-License-Identifier: MIT
#include "oracle/spectrace/stated_count.h"

namespace draftproof::spectrace {

void StatedCount::add(bool stated, long line) {
  if (stated) {
    ++stated_;
    return;
  }
  ++missing_;
  if (line == last_) return;
  last_ = line;
  ++rounds_;
  if (lines_.size() < lines_shown) lines_.push_back(line);
}

std::string StatedCount::lines() const {
  std::string text = lines_.size() == 1 ? "line " : "lines ";
  for (std::size_t i = 0; i < lines_.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(lines_[i]);
  if (rounds_ > static_cast<long>(lines_.size())) text += ", ... (" + std::to_string(rounds_) + " lines)";
  return text;
}

}  // namespace draftproof::spectrace
