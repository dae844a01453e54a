// SPDX-License-Identifier: MIT
// Chooses the length of every proposal, so that the expected output per second is most, and drafts nothing where that
// does not pay.
//
// It knows what passes and proposals cost, and learns how often a draft token at each depth is accepted when all before
// it were. With a(d) the estimate at depth d, a proposal of n draft tokens is expected to give
//   E(n) = 1 + a(0) + a(0) a(1) + ... + a(0) ... a(n - 1)
// output tokens, at the cost of verify[n] + draft[n], and of observing that output. What happened lately counts most;
// what a depth has not shown yet is taken from the depth before, and at first an estimate is high.
//
// A draft that is not expected to pay is tried at first, and again while such tries have lost nothing; then from time
// to time, for `probing` of the time that plain decoding would have taken. It has then to observe what was decoded
// without it, which counts as a cost of that round. All in all the tuner loses at most `patience` tokens' time and
// `loss` of the time of plain decoding, as far as the costs are right.
//
// The choice depends on the costs, and on what the rounds before drafted and accepted; on no clock.
#pragma once

#include <vector>

namespace draftproof {

/// Seconds, or any other unit. [n] is for n draft tokens, from 0 on.
struct DraftCosts {
  static constexpr int observed = 2;  // committed tokens of a round that `draft` counts with

  std::vector<double> verify;              // a verification pass over the anchor and n draft tokens
  std::vector<std::vector<double>> draft;  // [stage][n]: what a round takes more, with its proposal and observation
  std::vector<double> reading;             // [stage]: each committed token more that the stage has yet to observe

  bool operator==(const DraftCosts&) const = default;
};

class Tuner {
 public:
  static constexpr double patience = 5;
  static constexpr double probing = 0.0075;
  static constexpr double loss = 0.01;

  /// Every stage has at least one draft token in `costs`.
  explicit Tuner(DraftCosts costs);

  /// Returns how many draft tokens, at most `limit` >= 1, this stage is to propose. 0: none, the next stage is asked.
  int length(int stage, int limit) const;

  /// Learns of a round: how many draft tokens each stage was asked for (0: it was not), up to the one that proposed
  /// `drafted`, of which `accepted` became output. Without a proposal these are 0, and the stages are all there are.
  void learn(const std::vector<int>& asked, int drafted, int accepted);

  const DraftCosts& costs() const noexcept { return costs_; }

 private:
  struct Depth {
    double tried = 0;  // draft tokens that were verified at this depth
    double accepted = 0;
  };
  struct Stage {
    std::vector<Depth> depths;
    double asked = 0;
    double proposed = 0;
    int unread = 0;     // tokens committed since it was asked
    double probed = 0;  // what drafting that was not expected to pay has cost, less what it gave
  };
  struct Choice {
    int drafted = 0;
    double rate = 0;  // expected tokens per unit of cost
  };
  double nothing_proposed(int stage, int asked);
  double proposed(int stage, int asked, int drafted, int accepted);
  double cost(int stage, int asked, int drafted) const;
  double reading(int stage) const;  // what it has to observe first
  Choice best(int stage, int limit, bool as_at_first) const;
  double plain() const noexcept { return costs_.verify[0]; }

  DraftCosts costs_;
  double without_draft_ = 0;  // a round without a proposal: plain decoding, and what a draft needs of its pass
  std::vector<Stage> stages_;
  double plain_time_ = 0;  // of plain decoding for the output so far
  double gained_ = 0;      // plain_time_ minus what the rounds cost
};

}  // namespace draftproof
