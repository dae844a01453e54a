// SPDX-License-Identifier: MIT
// Splits text into the pieces that merges do not cross. Expressions are applied one after the other, each to the pieces
// of the previous one. If the file requires it, a space is put before every piece without one, between two of the
// expressions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ref/text/pattern.h"

namespace draftproof {

/// GPT-2's expression, which ByteLevel with use_regex means.
extern const std::string gpt2_pattern;

struct PreTokenizer {
  std::vector<Pattern> before_space;
  bool prefix_space = false;
  std::vector<Pattern> after_space;

  /// Appends the pieces of `text` (UTF-8), in order, none empty.
  void split(std::string_view text, MatchBudget& budget, std::vector<std::string>& pieces) const;
};

}  // namespace draftproof
