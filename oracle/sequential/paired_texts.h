// SPDX-License-Identifier: MIT
// Tests whether two engines write texts of one distribution, from the texts alone: no model, no probabilities.
//
// Texts come in pairs, one of each engine for the same request. If both engines have the same distribution, whatever it
// is, then of the two texts of a pair, shown without names, each is the second engine's with probability 1/2. A gambler
// bets on that before the names are told: with a score s for one order and -s for the other it gets 2 / (1 + exp(-s)),
// which is 1 on average. So P(wealth ever reaches 1 / alpha) <= alpha for engines of one distribution, however many
// pairs are looked at and whenever one stops (oracle/sequential/e_process.h). Pairs of equal texts cost nothing.
//
// Scores. A text is a list of units (tokens, or bytes where tokens are not known), each with the logarithm of its
// probability where the engine states that. Each view of a text puts its units into cells: the unit; the unit and the
// one before; the unit and all of the text before it; whether it occurred before, in the text or the prompt, and how
// long ago; its logarithm; how often it followed the unit before it in texts of the first engine; and the length of the
// text. A view's score is the sum, over the units from the first difference on, of the logarithm of how often earlier
// pairs had the cell in texts of the second engine and of the first. For each view there is a bet for three multiples
// of that score; another bet combines the views by a logistic regression over the earlier pairs. Wealth is spread as in
// oracle/sequential/wealth.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

/// A text that an engine has sampled.
struct SampledText {
  std::span<const Token> units;
  std::span<const double> logprobs = {};  // of each unit; or empty
};

class PairedTexts {
 public:
  static constexpr std::size_t views = 8;
  static constexpr std::array<double, 3> multiples = {1.0, 1.0 / 2, 1.0 / 8};
  static constexpr std::size_t bets = views * multiples.size() + 2;  // the regression, and one that keeps its wealth

  explicit PairedTexts(double alpha = 1e-9);

  /// Takes the next pair. `request`: its number, equal for equal requests. `prompt`: its units, which count as written
  /// before; empty where they are not known.
  void observe(std::int64_t request, const SampledText& first, const SampledText& second,
               std::span<const Token> prompt = {});

  double alpha() const noexcept { return alpha_; }
  long pairs() const noexcept { return pairs_; }
  long unequal() const noexcept { return unequal_; }  // pairs, which are bet on
  double e_value() const noexcept { return max_; }    // the largest wealth so far
  bool alarm() const noexcept { return max_ * alpha_ >= 1; }
  /// Returns the view whose bets have most of the wealth, in words.
  std::string suspect() const;
  /// Returns the share of the unequal pairs that one bet would have had to name rightly, each with the same stake, for
  /// an alarm: what these pairs would have shown. 1 when no share does.
  double share_seen() const;

 private:
  /// How often texts of either engine had a cell.
  struct Seen {
    double first = 0;
    double second = 0;
  };
  using Cells = std::map<std::uint64_t, Seen>;
  /// The cells of a text by view, from its first unit that differs on.
  using TextCells = std::array<std::vector<std::uint64_t>, views>;

  TextCells cells_of(std::int64_t request, std::span<const Token> prompt, const SampledText& text,
                     std::size_t from) const;
  double score_of(std::size_t view, const std::vector<std::uint64_t>& cells) const;
  void bet(const std::array<double, views>& scores);
  void learn(const TextCells& first, const TextCells& second, const SampledText& text_of_first);

  double alpha_;
  std::array<Cells, views> seen_;
  std::array<Seen, views> totals_;
  std::map<std::pair<Token, Token>, long> followed_;  // in texts of the first engine: a unit by another
  std::map<Token, long> occurred_;                    // the same: units that were followed
  std::array<double, views> slopes_{};                // of the regression
  std::array<double, views> squares_{};               // of its gradients, added up
  std::array<double, bets> wealth_;
  double max_ = 1;
  long pairs_ = 0;
  long unequal_ = 0;
};

}  // namespace draftproof
