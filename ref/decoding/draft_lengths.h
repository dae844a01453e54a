// SPDX-License-Identifier: MIT
// How many draft tokens a round pays for when sequences share passes. A pass that is bound by memory reads the weights
// once for all of its rows, so the rows of draft tokens cost little. The more sequences there are, the more rows a pass
// has without them, until it is bound by arithmetic and every row costs its share: then fewer draft tokens pay, or
// none.
//
// With a(d) the estimate of how often the draft token at depth d is accepted when all before it were, n sequences that
// draft k tokens each are expected to give n (1 + a(0) + ... + a(0) ... a(k - 1)) tokens in the time of a pass of
// n (1 + k) rows and of n proposals. The choice is the k for which that is most per second. What happened lately counts
// most, and an estimate that nothing confirms returns to its high beginning, so that drafting is tried again.
//
// The costs were measured with one sequence. How much longer passes and proposals take with several is learned from
// those that were run, by their size.
//
// The choice depends on measured times, so it may only be used where draft lengths change no text: under `matching`.
#pragma once

#include <array>
#include <vector>

#include "ref/drafts/costs.h"

namespace draftproof {

class DraftLengths {
 public:
  /// `costs.verify` has at least two entries; more rows than it has cost as the last of them do. Proposals of several
  /// sequences take as much longer than one as passes of the target do.
  explicit DraftLengths(DraftCosts costs);

  /// What a round is expected to give with draft tokens.
  struct Worth {
    int draft_tokens = 0;
    double tokens = 1;  // of its output
    double times = 1;   // as long as a round without draft tokens takes
    double speedup() const { return tokens / times; }
  };
  /// That of each of so many rounds that share a pass, with as many draft tokens as give most per second; at least one,
  /// where the draft has any.
  Worth worth(int sequences) const;
  /// Returns the most draft tokens of each of these rounds: those of worth(), or 0 where they do not pay.
  int max(int sequences) const;
  /// Learns of a round with draft tokens.
  void learn(int drafted, int accepted);
  /// Learns how long a pass of the target took.
  void learn_pass(int rows, double seconds);
  /// Learns how long it took that so many sequences, at least one, proposed, this many draft tokens at most, and
  /// observed.
  void learn_proposals(int sequences, int draft_tokens, double seconds);
  /// A pass has ended: what was learned before counts a little less.
  void forget();

 private:
  struct Depth {
    double tried;
    double accepted;
  };
  /// How many times as long as expected something takes, by its size.
  class Factors {
   public:
    double of(int size) const;
    void learn(int size, double factor);
    void forget();

   private:
    static constexpr double prior_weight = 0.1;  // of a time that was measured
    struct Mean {
      double sum = 0;
      double count = 0;
      double with(double prior) const { return (sum + prior_weight * prior) / (count + prior_weight); }
    };
    Mean all_;
    std::array<Mean, 64> by_size_;
  };

  double expected_pass(int rows) const;
  double expected_proposals(int sequences, int draft_tokens) const;
  double pass(int rows) const { return expected_pass(rows) * pass_factors_.of(rows); }
  double proposals(int sequences, int draft_tokens) const;

  DraftCosts costs_;
  std::vector<Depth> depths_;
  Factors pass_factors_;
  Factors proposal_factors_;  // by sequences * draft tokens
};

}  // namespace draftproof
