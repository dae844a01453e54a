// SPDX-License-Identifier: MIT
// Compares the drafts of two runs whose texts differ, as texts under `rejection` do. A verified draft token is accepted
// with probability min(1, p / q), whatever its coin; so draft tokens of other texts can be compared, too. By depth in a
// round these probabilities are reported. For each sequence that both runs have it bets that the first run has the
// higher mean, over first draft tokens. One sequence is one bet, because the positions of a text depend on one another.
// For a draft that has the higher mean with a probability of at least `fair`, given all earlier sequences, P(slower) <=
// alpha. About 60 sequences in which the first run has it are enough for an alarm.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "oracle/sequential/acceptance_evidence.h"
#include "oracle/sequential/paired_acceptance.h"

namespace draftproof {

/// The sum over draft tokens of the probability with which each is accepted.
struct AcceptanceSum {
  double probability = 0;
  long draft_tokens = 0;
  double mean() const { return draft_tokens == 0 ? 0 : probability / static_cast<double>(draft_tokens); }
};

class ExpectedAcceptance {
 public:
  /// Of one sequence or more; [0]: first draft tokens of a round.
  using ByDepth = std::vector<AcceptanceSum>;
  static void add(ByDepth& sums, std::size_t depth, double probability);

  /// Takes a sequence of both runs.
  void observe(const ByDepth& first, const ByDepth& second);

  double e_value() const noexcept { return evidence_.e_value(); }
  bool slower() const noexcept { return evidence_.alarm(); }
  /// Returns a line of means by depth, and one of the alarm. `first` and `second` name the runs: "the first file".
  /// Empty when one of them has no draft token.
  std::string text(const std::string& first, const std::string& second) const;

 private:
  AcceptanceEvidence evidence_{PairedAcceptance::alpha, AcceptanceEvidence::Side::rare};
  std::array<ByDepth, 2> sums_;
};

}  // namespace draftproof
