// SPDX-License-Identifier: MIT
// Where two texts of one greedy request part, and what that shows.
//
// An engine adds numbers in another order when it verifies draft tokens, so its logits move a little, and a token whose
// logit is nearly the best may be written instead of it. How far they move is not assumed but measured: the control
// asks the plain engine the same thing alone, again, together with others, and with its own text as the prompt, and
// compares the logarithms of probabilities that it states.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oracle/compare/asked_engine.h"

namespace draftproof {

/// What plain decoding differs by from itself.
class ControlSpread {
 public:
  /// Compares two readings of one request by the plain engine, as far as their texts agree.
  void compare(const EngineText& one, const EngineText& other);
  /// The same, where the other has read a part of the text in one pass, as a verification reads draft tokens.
  void compare_read_again(const EngineText& one, const EngineText& other);
  /// Counts how close the two most likely tokens are, in one reading.
  void count_gaps(const EngineText& text);

  long positions() const noexcept { return positions_; }  // at which logarithms were compared
  double largest() const noexcept { return largest_; }    // difference of one
  long texts() const noexcept { return texts_; }
  long differing() const noexcept { return differing_; }  // of them
  /// Returns how far apart two logarithms of right numerics may be: twice the largest difference, as both tokens of a
  /// pair move, and at least what is lost where logarithms are written with six digits.
  double tie() const noexcept;
  /// Returns a gap that is more than numerics: 8 logits, a factor of 3000 in probability; and where 100 positions or
  /// more were compared behind a text that was read in one pass, ten times the tie, if that is less, but no less than a
  /// fiftieth.
  double beyond_numerics() const noexcept;
  /// Whether so many were compared and not one logarithm moved in any way of asking: what this engine reads together
  /// changes no bit, so no difference is due to numerics, however close the tokens are.
  bool exact() const noexcept;
  /// Returns how many of `positions` positions have the two most likely tokens within the tie: numerics explain at most
  /// so many first differences. nullopt: the engine states no logarithms.
  std::optional<double> expected_ties(long positions) const;
  /// "largest difference 1.2e-6 at 3120 positions, ..."
  std::string describe() const;

 private:
  long positions_ = 0;
  long read_again_ = 0;  // of these positions
  double largest_ = 0;
  double gap_of_differing_ = 0;  // largest, of the texts that differ
  long texts_ = 0;
  long differing_ = 0;
  long gaps_ = 0;
  long small_gaps_ = 0;
};

/// How a difference is explained.
enum class Explanation { tie, not_explained, bug };
const char* name_of(Explanation explanation) noexcept;  // "TIE", "NOT_EXPLAINED", "BUG"

/// Returns how far below `best` a token lies after prompt and text, in logits; nullopt: not known. `other`: nullopt is
/// the end of the text.
using GapReader = std::function<std::optional<double>(const EngineRequest& request, std::span<const Token> text,
                                                      std::optional<Token> best, std::optional<Token> other)>;

struct FirstDifference {
  std::size_t place = 0;      // of the unit in the text
  std::optional<double> gap;  // in logits
  bool at_least = false;      // the gap is at least that
  std::string gap_from;       // "the target", "the plain engine's logprobs"
  Explanation explanation = Explanation::not_explained;
};

/// Whether a request's settings change logits, so that stated logarithms, which may be of the model's own, say nothing
/// of gaps.
bool changes_logits(const EngineRequest& request);

/// Returns where the texts differ; nullopt: their units are equal.
std::optional<FirstDifference> first_difference(const EngineRequest& request, const EngineText& plain,
                                                const EngineText& speculative, const ControlSpread& spread,
                                                const GapReader& gap);

}  // namespace draftproof
