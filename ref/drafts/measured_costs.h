// SPDX-License-Identifier: MIT
// What verification passes and proposals cost, as the rounds of one text show it, in passes of plain decoding.
//
// Whatever else the machine does delays rounds, often by several times their length, and lets them all take longer for
// a while. So only what is close in time is compared: a pass with the passes before it, a proposal with the pass of its
// own round. And no measurement decides: of many possible costs each measurement makes those likelier that it fits, and
// one that fits none of them says little. What costs count with is their mean, by how likely they are.
//
// No function of the C library has a part in it, so that costs are the same wherever they are computed.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "ref/drafts/costs.h"

namespace draftproof {

/// What a tuner begins with, of stages that propose so many draft tokens at most, 1 to `draft_max`: about what targets
/// and networks take. A stage that reads the text only takes next to nothing.
struct ExpectedStage {
  int draft_max = 0;
  ProposalWork work = ProposalWork::passes;
};
DraftCosts expected_costs(const std::vector<ExpectedStage>& stages, int draft_max);

/// Costs that grow by the same with each of a count, but for the first ones, which are free: while a pass waits for its
/// weights, it has time for some rows more.
struct CostLine {
  double first = 0;
  double each = 0;
  int free = 0;
  double at(int n) const { return first + (n > free ? n - free : 0) * each; }
};

/// How likely each of many lines is to be what something costs.
class LikelyLines {
 public:
  /// Every combination of these that can be. At first those near the expected one are likelier, and lines of which
  /// nothing is free; 0 is only where it is expected. `count`: the most that is asked for.
  LikelyLines(const std::vector<double>& firsts, const std::vector<double>& eaches, const std::vector<int>& frees,
              CostLine expected, int count);

  /// Their mean.
  double at(int n) const { return means_[static_cast<std::size_t>(n)]; }

  /// Learns what was measured, beside what it would be by each line, above 0.
  void learn(double measured, const std::function<double(const CostLine&)>& by_line);

 private:
  void take_means();

  std::vector<CostLine> lines_;
  std::vector<double> at_first_;  // how likely each is, of all 1
  std::vector<double> now_;
  std::vector<double> means_;  // [n]
};

class MeasuredCosts {
 public:
  /// Every stage has at least one draft token in `expected`.
  explicit MeasuredCosts(DraftCosts expected);

  const DraftCosts& expected() const noexcept { return expected_; }
  int stages() const noexcept { return static_cast<int>(stages_.size()); }
  /// The most draft tokens of a proposal of the stage.
  int max(int stage) const noexcept { return static_cast<int>(expected_.draft[place(stage)].size()) - 1; }

  /// Whether the stage has a pass for each draft token, and none behind the row that ends its proposal.
  bool has_passes(int stage) const noexcept {
    return !expected_.work.empty() && expected_.work[place(stage)] == ProposalWork::passes;
  }

  // All costs are in passes of plain decoding. They are those expected until a round was measured.
  double verify(int n) const;
  double draft(int stage, int n) const;
  double reading(int stage) const;

  /// Whether a round was measured.
  bool measured() const noexcept { return measured_; }

  /// Learns how long the pass over the anchor and this many draft tokens took.
  void learn_verify(int drafted, const RoundSeconds& seconds);
  /// Learns how long this stage took in a round with so many draft tokens, computing n, when it had so many committed
  /// tokens more to observe than `DraftCosts::observed`.
  void learn_draft(int stage, int n, int more, int drafted, const RoundSeconds& seconds);

 private:
  struct Pass {
    int drafted;
    double seconds;
  };
  struct Stage {
    LikelyLines draft;
    LikelyLines reading;
  };
  static std::size_t place(int index) noexcept { return static_cast<std::size_t>(index); }

  DraftCosts expected_;
  bool measured_ = false;
  LikelyLines rows_;
  std::vector<Pass> passes_;  // the last ones, the oldest first
  std::vector<Stage> stages_;
};

}  // namespace draftproof
