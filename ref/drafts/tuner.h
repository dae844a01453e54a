// SPDX-License-Identifier: MIT
// Chooses the length of every proposal, so that the output per second is most, and drafts nothing where that does not
// pay.
//
// It estimates what passes and proposals cost (measured_costs.h), how often a draft token at each depth is accepted
// when all before it were, and how far a proposal reaches: a draft may propose fewer draft tokens than it is asked for,
// and only those cost rows. Where it does so, long proposals may be better or worse than short ones, so they are
// counted apart: how often one that reached a depth was accepted up to there. What happened lately counts most; what a
// depth has not shown yet is taken from the depth before, and at first an estimate is high. Of all lengths it takes the
// one for which
//   (expected output tokens) - rate * (cost in passes of plain decoding)
// is most, where `rate` is what the rounds gave lately per such cost. That makes the output of all rounds most, those
// with nothing to propose included. The first proposal has at most 2 draft tokens, each other at most 4 times as many
// as the longest before, so that costs are known before much is risked.
//
// A draft that is not expected to pay is tried at first, and again while such tries have lost nothing; then from time
// to time, for `probing` of the time that plain decoding would have taken, so the oftener the less a try costs. It has
// then to observe what was decoded without it, which counts as a cost of that round. All in all the tuner loses at most
// the time of `loss_at_start` tokens and `loss` of the time of plain decoding, as far as the costs are right. Where all
// rounds draft, the second is left out, and one from time to time, for `probing` of their time, to measure what plain
// decoding costs now.
//
// A draft with a pass for each draft token that ends its proposal by itself (min_prob) costs the passes that it had:
// one more than it has draft tokens, at most as many as were asked for.
//
// The choice depends on the costs at first, and on what the rounds before drafted, accepted and took. A clock has a
// part in it only by the times that it is told, which the trace states.
#pragma once

#include <optional>
#include <vector>

#include "ref/drafts/costs.h"
#include "ref/drafts/measured_costs.h"

namespace draftproof {

class Tuner {
 public:
  static constexpr double loss_at_start = 5;
  static constexpr double probing = 0.0075;
  static constexpr double loss = 0.01;

  /// Every stage has at least one draft token in `costs`, which are right, or expected until times are told.
  explicit Tuner(DraftCosts costs);

  /// Returns how many draft tokens, at most `limit` >= 1, this stage is to propose. 0: none, the next stage is asked.
  int length(int stage, int limit) const;

  /// Learns of a round: how many draft tokens each stage was asked for (0: it was not), up to the one that proposed
  /// `drafted`, of which `accepted` became output. Without a proposal these are 0, and the stages are all there are.
  /// `seconds`: what the round took, when it was measured.
  void learn(const std::vector<int>& asked, int drafted, int accepted,
             const std::optional<RoundSeconds>& seconds = std::nullopt);

  /// What costs were expected at first.
  const DraftCosts& costs() const noexcept { return costs_.expected(); }

 private:
  /// How often something was so, of the times that it could have been.
  struct Share {
    double of = 0;
    double count = 0;
    void learn(bool tried, bool holds);
    double with(double prior, double weight) const { return (count + weight * prior) / (of + weight); }
  };
  /// What rounds did, so that they cost what is known now.
  struct Account {
    std::vector<double> passes;              // [draft tokens]
    std::vector<std::vector<double>> asked;  // [stage][draft tokens that it computed]
    std::vector<double> read;                // [stage]: tokens, more than DraftCosts::observed
    double output = 0;                       // tokens
    void forget(double kept);
  };
  struct Depth {
    Share accepted;  // of the draft tokens here that were verified with all before accepted
    Share offered;   // of the proposals that could go on to here, those that did
    Share whole;     // of these, those that were accepted up to here
  };
  struct Stage {
    std::vector<Depth> depths;
    int longest = 0;  // proposal so far
    int unread = 0;   // tokens committed since it was asked
    Account probes;   // drafting that was not expected to pay
  };
  struct Choice {
    int drafted = 0;
    double value = 0;  // expected tokens, less what the rounds give otherwise in that time
  };
  double cost(const Account& account) const;
  double gained(const Account& account) const { return account.output - cost(account); }
  /// The draft tokens that each stage computed.
  std::vector<int> computed(const std::vector<int>& asked, int drafted) const;
  void enter(Account& account, const std::vector<int>& computed, int drafted, int accepted) const;
  void learn_acceptance(Stage& stage, int asked, int drafted, int accepted);
  double tokens_to_read(int stage) const;  // more than DraftCosts::observed
  double risk(int stage, int n) const;     // what a proposal costs of which nothing is accepted
  double rate() const;
  bool plain_wanted() const;
  Choice best(int stage, int limit, bool as_at_first) const;

  MeasuredCosts costs_;
  std::vector<Stage> stages_;
  Account all_;
  Account lately_;
  bool plain_measured_ = false;
  int since_plain_ = 0;  // rounds with draft tokens since the last without, which were measured
  double left_out_ = 0;  // what it cost to leave rounds out, in passes
};

}  // namespace draftproof
