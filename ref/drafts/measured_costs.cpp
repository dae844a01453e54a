// SPDX-License-Identifier: MIT
#include "ref/drafts/measured_costs.h"

#include <algorithm>
#include <span>
#include <utility>

#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr std::size_t passes_apart = 5;  // at most, to be compared
constexpr double seconds_min = 1e-9;     // a shorter time says nothing
constexpr double cost_min = 1e-4;        // a lower one is as good as none, in passes of plain decoding
constexpr double spread = 0.2;           // of measurements of one cost, as a share of it
constexpr double expected_spread = 2;    // of costs around the expected one, the same
constexpr double none_likely = 0.1;      // how likely no cost is where one is expected, which has 1
constexpr double least_likely = 1e-9;    // how likely every other cost is at first
constexpr double free_likely = 0.3;      // how likely each number of free rows is, where none has 1
constexpr double disturbed = 0.1;        // share of measurements that say nothing
constexpr double changed = 0.001;        // how likely a cost changes between two measurements to any other

/// 1 when both are equal, and less the more their ratio differs from 1, in spreads: as much for a half as for two.
double nearness(double ratio, double spread) {
  const double apart = (ratio - 1 / ratio) / (2 * spread);
  return 1 / (1 + apart * apart);
}

double likely_at_first(double cost, double expected) {
  if (expected <= 0) return cost <= 0 ? 1 : 0;
  return cost <= 0 ? none_likely : std::max(least_likely, nearness(cost / expected, expected_spread));
}

/// Whether so many rows can be free. A pass takes what its weights take to be read, or, if that is more, what its rows
/// take to be computed; so the first row that is not free ends what reading hides.
bool fits(int free, double each) {
  const double rows_of_a_pass = each * (free + 1);
  return free == 0 || (rows_of_a_pass >= 0.8 && rows_of_a_pass <= 1.1);
}

/// From `first` on, each `factor` times the one before.
std::vector<double> costs_from(double first, double factor, int count) {
  std::vector<double> costs;
  for (double cost = first; count > 0; --count, cost *= factor) costs.push_back(cost);
  return costs;
}

std::vector<double> or_none(std::vector<double> costs) {
  costs.insert(costs.begin(), 0);
  return costs;
}

double median(std::vector<double>& values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

/// The line through the first and the last of a list of at least one cost, for 1 draft token on.
CostLine line_through(std::span<const double> costs) {
  const auto steps = static_cast<double>(costs.size() - 1);
  const double each = steps > 0 ? std::max(0.0, (costs.back() - costs.front()) / steps) : 0;
  return {std::max(0.0, costs.front() - each), each};
}

/// Of passes, the first of which costs something.
CostLine line_of_rows(std::span<const double> passes) {
  constexpr double row_min = 0.01;
  REQUIRE(passes.size() >= 2 && passes[0] > 0, "a round can have a draft token, and a pass costs something");
  return {1, std::max(row_min, (passes.back() / passes[0] - 1) / static_cast<double>(passes.size() - 1))};
}

}  // namespace

DraftCosts expected_costs(const std::vector<ExpectedStage>& stages, int draft_max) {
  constexpr double row = 0.2;
  constexpr double reading = 0.02;
  const auto line = [](ProposalWork work) -> CostLine {
    if (work == ProposalWork::none) return {0.002, 0};
    if (work == ProposalWork::one_pass) return {0.3, 0.01};
    return {0.1, 0.3};
  };
  DraftCosts costs;
  for (int n = 0; n <= draft_max; ++n) costs.verify.push_back(1 + row * n);
  for (const ExpectedStage& stage : stages) {
    costs.draft.push_back({0});
    for (int n = 1; n <= stage.draft_max; ++n) costs.draft.back().push_back(line(stage.work).at(n));
    costs.reading.push_back(stage.work == ProposalWork::none ? 0 : reading);
    costs.work.push_back(stage.work);
  }
  return costs;
}

LikelyLines::LikelyLines(const std::vector<double>& firsts, const std::vector<double>& eaches,
                         const std::vector<int>& frees, CostLine expected, int count)
    : means_(static_cast<std::size_t>(count) + 1) {
  for (const double first : firsts) {
    for (const double each : eaches) {
      const double likely = likely_at_first(first, expected.first) * likely_at_first(each, expected.each);
      if (likely <= 0) continue;
      for (const int free : frees) {
        if (!fits(free, each)) continue;
        lines_.push_back({first, each, free});
        at_first_.push_back(likely * (free > 0 ? free_likely : 1));
      }
    }
  }
  REQUIRE(!lines_.empty(), "some line is near the expected");
  double sum = 0;
  for (const double likely : at_first_) sum += likely;
  for (double& likely : at_first_) likely /= sum;
  now_ = at_first_;
  take_means();
}

void LikelyLines::learn(double measured, const std::function<double(const CostLine&)>& by_line) {
  double sum = 0;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    now_[i] *= disturbed + (1 - disturbed) * nearness(measured / by_line(lines_[i]), spread);
    sum += now_[i];
  }
  for (std::size_t i = 0; i < lines_.size(); ++i) now_[i] = (1 - changed) * now_[i] / sum + changed * at_first_[i];
  take_means();
}

void LikelyLines::take_means() {
  std::ranges::fill(means_, 0);
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    for (std::size_t n = 0; n < means_.size(); ++n) means_[n] += now_[i] * lines_[i].at(static_cast<int>(n));
  }
}

MeasuredCosts::MeasuredCosts(DraftCosts expected)
    : expected_(std::move(expected)),
      rows_({1}, costs_from(0.01, 1.3, 20), {0, 2, 4, 6}, line_of_rows(expected_.verify),
            static_cast<int>(expected_.verify.size()) - 1) {
  REQUIRE(expected_.reading.size() == expected_.draft.size(), "every stage has its costs");
  const double plain = expected_.verify[0];
  for (std::size_t stage = 0; stage < expected_.draft.size(); ++stage) {
    const std::span<const double> draft = expected_.draft[stage];
    REQUIRE(draft.size() >= 2 && draft.size() <= expected_.verify.size(), "every proposal can be verified");
    const CostLine proposal = line_through(draft.subspan(1));
    const CostLine reading = {0, expected_.reading[stage] / plain};
    stages_.push_back({LikelyLines(or_none(costs_from(0.002, 2.15, 10)), or_none(costs_from(0.01, 1.4, 16)), {0},
                                   {proposal.first / plain, proposal.each / plain}, static_cast<int>(draft.size()) - 1),
                       LikelyLines({0}, or_none(costs_from(0.002, 1.5, 16)), {0}, reading, 1)});
  }
}

double MeasuredCosts::verify(int n) const {
  return measured_ ? rows_.at(n) : expected_.verify[place(n)] / expected_.verify[0];
}

double MeasuredCosts::draft(int stage, int n) const {
  if (measured_ && n > 0) return stages_[place(stage)].draft.at(n);
  return expected_.draft[place(stage)][place(n)] / expected_.verify[0];
}

double MeasuredCosts::reading(int stage) const {
  return measured_ ? stages_[place(stage)].reading.at(1) : expected_.reading[place(stage)] / expected_.verify[0];
}

/// Compares the pass with what plain decoding takes now, by the last passes, if this is what passes cost.
void MeasuredCosts::learn_verify(int drafted, const RoundSeconds& seconds) {
  if (seconds.verify < seconds_min) return;
  measured_ = true;
  if (!passes_.empty()) {
    std::vector<double> plain(passes_.size());
    rows_.learn(seconds.verify, [&](const CostLine& line) {
      std::ranges::transform(passes_, plain.begin(),
                             [&](const Pass& pass) { return pass.seconds / line.at(pass.drafted); });
      return median(plain) * line.at(drafted);
    });
  }
  if (passes_.size() == passes_apart) passes_.erase(passes_.begin());
  passes_.push_back({drafted, seconds.verify});
}

void MeasuredCosts::learn_draft(int stage, int n, int more, int drafted, const RoundSeconds& seconds) {
  if (seconds.verify < seconds_min) return;
  const double cost = seconds.draft / seconds.verify * verify(drafted) + cost_min;
  Stage& one = stages_[place(stage)];
  if (more > 0) {
    const double proposal = one.draft.at(n) + cost_min;
    one.reading.learn(cost, [&](const CostLine& reading) { return proposal + more * reading.each; });
  } else {
    one.draft.learn(cost, [&](const CostLine& proposal) { return proposal.at(n) + cost_min; });
  }
}

}  // namespace draftproof
