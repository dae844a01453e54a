// SPDX-License-Identifier: MIT
// How often a trace states what a bet needs, and where it does not.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace draftproof::spectrace {

class StatedCount {
 public:
  void add(bool stated, long line);
  long stated() const noexcept { return stated_; }
  long missing() const noexcept { return missing_; }
  /// Returns "lines 3, 4, 9, ... (57 lines)": where it is missing.
  std::string lines() const;

 private:
  static constexpr std::size_t lines_shown = 8;
  long stated_ = 0;
  long missing_ = 0;
  long rounds_ = 0;  // where it is missing
  long last_ = 0;    // line of these
  std::vector<long> lines_;
};

}  // namespace draftproof::spectrace
