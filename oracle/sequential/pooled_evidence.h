// SPDX-License-Identifier: MIT
// Evidence of many texts that are independent of each other, as trials with random numbers of their own are. E-values
// of independent texts multiply. But what an EProcess has at the end of a text is an average over bets, most of which
// lost: a product of averages forgets which bet won and pays for all of them in every text anew. So bet by bet is
// multiplied, and then averaged over the bets: as good as one EProcess that read all texts, whoever computed them, and
// when.
//
// What must not be multiplied: the largest wealth that a text reached, which is no e-value at its end; and texts drawn
// with the same random numbers. The product after each text, in an order known beforehand, is a martingale for a right
// decoder, so its largest value counts: P(it ever reaches 1 / alpha) <= alpha.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace draftproof {

class PooledEvidence {
 public:
  explicit PooledEvidence(double alpha) : alpha_(alpha) {}

  /// Adds a text: EProcess::by_bet() of each, of the same bets, in an order that does not depend on them.
  void add(std::span<const double> by_bet, long tokens);

  long tokens() const noexcept { return tokens_; }
  double alpha() const noexcept { return alpha_; }
  /// The largest e-value so far; infinite from e^709 on.
  double e_value() const noexcept;
  bool alarm() const noexcept;
  /// What the fault looks like: the bet that has made the most by now.
  std::string suspect() const;
  /// The deviation that would have been found with probability 0.99, as EProcess has it; 1: none.
  double smallest_deviation() const;
  std::string describe() const;
  /// Tokens and e-value after texts: at most 512 points, the last is the end.
  std::vector<std::pair<long, double>> curve() const;

 private:
  double alpha_;
  std::vector<double> logs_;  // of what each bet has made of 1
  long tokens_ = 0;
  double max_log_ = 0;
  std::vector<std::pair<long, double>> curve_;
};

}  // namespace draftproof
