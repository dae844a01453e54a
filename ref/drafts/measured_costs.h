// SPDX-License-Identifier: MIT
// What verification passes and proposals cost, as the rounds of one text show it, in passes of plain decoding.
//
// Costs begin as expected ones and follow the times that rounds took. Whatever else the machine does delays rounds,
// often by several times their length, and lets them all take longer for a while. So only what is close in time is
// compared, and of many comparisons the median counts:
// - What more rows cost, as a factor of what is expected, by pairs of passes of which one is at least twice as long as
//   the other.
// - What a proposal costs, and what more for each of its draft tokens, by the pass of the same round.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "ref/drafts/costs.h"

namespace draftproof {

/// What a tuner begins with, of stages that propose so many draft tokens at most, 1 to `draft_max`: about what targets
/// and networks take. A stage that reads the text only takes next to nothing.
struct ExpectedStage {
  int draft_max = 0;
  bool reads_text_only = false;
};
DraftCosts expected_costs(const std::vector<ExpectedStage>& stages, int draft_max);

/// A number, and how much it counts.
struct Weighted {
  double value = 0;
  double weight = 1;
};

/// The median of what was expected, as one vote, and of what was measured lately.
class Votes {
 public:
  explicit Votes(double expected, double weight = 1) : votes_{{expected, weight}}, median_(expected) {}
  double median() const noexcept { return median_; }
  void add(const std::vector<Weighted>& more);

 private:
  std::vector<Weighted> votes_;  // the expectation, then the last measurements, the oldest first
  double median_;
};

/// What something costs that costs the same for each of a count, and something besides.
class CostLine {
 public:
  /// `expected`: for every count from 0 on. What is expected of 0 is not learned.
  explicit CostLine(const std::vector<double>& expected);
  double at(int n) const { return n == 0 ? of_none_ : first_ + n * each_; }
  void learn(int n, double cost);

 private:
  struct Measured {
    int n;
    double cost;
  };
  void fit();

  double of_none_;
  double expected_first_;
  double expected_each_;
  std::vector<Measured> measured_;  // the last ones, the oldest first
  double first_;
  double each_;
};

class MeasuredCosts {
 public:
  /// Every stage has at least one draft token in `expected`.
  explicit MeasuredCosts(DraftCosts expected);

  const DraftCosts& expected() const noexcept { return expected_; }
  int stages() const noexcept { return static_cast<int>(draft_.size()); }
  /// The most draft tokens of a proposal of the stage.
  int most(int stage) const noexcept { return static_cast<int>(expected_.draft[place(stage)].size()) - 1; }

  // All costs are in passes of plain decoding.
  double verify(int n) const { return 1 + rows_factor_.median() * more_[place(n)]; }
  double draft(int stage, int n) const { return draft_[place(stage)].at(n); }
  double reading(int stage) const { return reading_[place(stage)].median(); }

  /// Learns how long the pass over the anchor and this many draft tokens took.
  void learn_verify(int drafted, const RoundSeconds& seconds);
  /// Learns how long this stage took in a round with so many draft tokens, asked for n, when it had so many committed
  /// tokens more to observe than `DraftCosts::observed`.
  void learn_draft(int stage, int n, int more, int drafted, const RoundSeconds& seconds);

 private:
  struct Pass {
    int drafted;
    double seconds;
  };
  static std::size_t place(int index) noexcept { return static_cast<std::size_t>(index); }
  void compare_with_last(const Pass& pass);

  DraftCosts expected_;
  std::vector<double> more_;  // [draft tokens]: what a pass is expected to cost more
  Votes rows_factor_;         // of what more rows are expected to cost
  std::vector<Pass> passes_;  // the last ones, the oldest first
  std::vector<CostLine> draft_;
  std::vector<Votes> reading_;
};

}  // namespace draftproof
