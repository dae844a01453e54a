// SPDX-License-Identifier: MIT
// Splits text into the pieces that tokens do not cross, by steps applied one after the other, each to the pieces of the
// one before.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ref/text/pattern.h"

namespace draftproof {

/// GPT-2's expression, which ByteLevel with use_regex means.
extern const std::string gpt2_pattern;

/// What becomes of the matches of an expression.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct SplitStep {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool inverted = false;  // the texts between matches count as the matches
};

/// Puts a space before every piece without one.
struct PrefixSpaceStep {};

/// Writes spaces as `mark`, puts one in front, and splits before each.
struct MetaspaceStep {
  enum class Prepend { never, first, always };  // `first`: only where the whole text begins
  std::string mark;
  Prepend prepend = Prepend::always;
  bool split = true;
};

/// The pieces of a text; those that a step changed are kept here.
struct Pieces {
  std::vector<std::string_view> list;
  std::deque<std::string> changed;
};

class PreTokenizer {
 public:
  using Step = std::variant<SplitStep, PrefixSpaceStep, MetaspaceStep>;

  void add(Step step) { steps_.push_back(std::move(step)); }

  /// Returns the pieces of `text` (UTF-8), in order, none empty; they point into it. `first`: the whole text begins
  /// here.
  Pieces split(std::string_view text, bool first, MatchBudget& budget) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace draftproof
