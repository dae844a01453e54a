// SPDX-License-Identifier: MIT
// Text into the pieces that merges do not cross: expressions one after the other, each on what the one before left, and
// where the file asks for it a space before every piece that has none, between two of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ref/text/pattern.h"

namespace draftproof {

/// GPT-2's own expression, which ByteLevel with use_regex stands for.
extern const std::string gpt2_pattern;

struct PreTokenizer {
  std::vector<Pattern> before_space;
  bool prefix_space = false;
  std::vector<Pattern> after_space;

  /// Appends the pieces of `text` (UTF-8), in order, none empty.
  void split(std::string_view text, MatchBudget& budget, std::vector<std::string>& pieces) const;
};

}  // namespace draftproof
