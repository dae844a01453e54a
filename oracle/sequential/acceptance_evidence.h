// SPDX-License-Identifier: MIT
// Tests whether draft tokens are accepted as often as p and q require. Only outcomes are used, for any number of them,
// like tokens in oracle/sequential/e_process.h: no bet wins against a right engine, P(alarm) <= alpha. For engines that
// do not state their accept coins, or state coins that cannot be recomputed.
//
// A right engine accepts with probability a = min(1, p / q) given everything before. For each lambda of 1/64 ... 64 a
// bet assumes that the odds are lambda times as high: it pays lambda^accepted / (1 + a (lambda - 1)), whose expectation
// is 1. p and q of reals give a up to a factor between 1 - e and 1 + e, and a coin with 2^20 or more equally likely
// values is below it with a probability that is off by 2^-20. So the payment is divided by the largest expectation that
// it can have, with a (1 + e) + 2^-20 in place of a for lambda > 1 and a (1 - e) - 2^-20 for the others. Wealth is
// spread evenly over these bets and one that pays 1; after every 64 outcomes a share of 2^-14 of it is spread again.
// Payments are lowered by 2^-30 of themselves, for rounding.
//
// A bet is fair only where it is known before the coin that it will be made. Whether an engine states p and q of a
// draft token may depend on the outcome. So where they are not known each bet pays the least that it could have paid:
// 1 / lambda for a rejection where lambda > 1, lambda for an acceptance where lambda < 1, 1 for the two others; where
// the outcome is not known either, the smaller of lambda and 1 / lambda.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

namespace draftproof {

class AcceptanceEvidence {
 public:
  /// What is bet on: that acceptances are too rare, or that they are too rare or too frequent. Bets on rare ones alone
  /// are fair wherever the probability of acceptance is at least the stated one.
  enum class Side { both, rare };
  explicit AcceptanceEvidence(double alpha, Side side = Side::both);

  /// Pays for the next verified draft token. `probability`: of acceptance, from what is known before its coin is.
  /// `rounding`: the e above. Outcomes that are certain within rounding, or impossible, are counted and not bet on.
  void observe(double probability, bool accepted, double rounding = 0);

  /// Pays for a draft token whose p or q is not known the least that could be paid. `accepted`: where that is known.
  void forfeit(std::optional<bool> accepted);

  long judged() const noexcept { return judged_; }
  long accepted() const noexcept { return accepted_; }
  double expected() const noexcept { return expected_; }  // number accepted
  /// Returns the largest wealth so far.
  double e_value() const noexcept { return max_; }
  bool alarm() const noexcept { return max_ * alpha_ >= 1; }
  /// Returns whether no wealth so far was below that of now: what comes next may be where a fault begins.
  bool at_lowest() const noexcept { return at_lowest_; }
  /// Returns what the fault looks like: the bet that has most of the wealth now.
  std::string suspect() const;
  std::string describe() const;

 private:
  static constexpr std::array<double, 10> odds = {1.0 / 64, 1.0 / 16, 1.0 / 4, 1.0 / 2, 4.0 / 5, 5.0 / 4, 2, 4, 16, 64};

  double alpha_;
  std::array<double, odds.size()> wealth_;
  double kept_;  // by the bet that pays 1
  double max_ = 1;
  double min_ = 1;
  bool at_lowest_ = true;
  long judged_ = 0;
  long accepted_ = 0;
  double expected_ = 0;
};

}  // namespace draftproof
