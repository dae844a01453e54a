// SPDX-License-Identifier: MIT
#include "ref/drafts/measured_costs.h"

#include <algorithm>
#include <limits>
#include <span>

#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr int votes = 128;             // the last ones
constexpr int measurements = 16;       // of proposals, the last ones
constexpr int passes_apart = 5;        // at most, to be compared
constexpr double factor_most = 40;
constexpr double least_row = 0.005;  // that a row more is expected to cost, in passes of plain decoding
constexpr double least_seconds = 1e-9;  // a shorter time says nothing

/// Appends to a list of which the first `fixed` elements stay, and of the others the last `most`.
template <class Value>
void keep_last(std::vector<Value>& list, Value value, int most, int fixed = 0) {
  if (static_cast<int>(list.size()) == fixed + most) list.erase(list.begin() + fixed);
  list.push_back(value);
}

/// The least value that has half of the weight at or below it. The list is not empty.
double lower_median(std::vector<Weighted> values) {
  std::ranges::stable_sort(values, {}, &Weighted::value);
  double half = 0;
  for (const Weighted& one : values) half += one.weight / 2;
  auto at = values.begin();
  for (double below = at->weight; below < half && at + 1 != values.end(); below += at->weight) ++at;
  return at->value;
}

}  // namespace

DraftCosts expected_costs(const std::vector<ExpectedStage>& stages, int draft_max) {
  constexpr double row = 0.05;
  constexpr double proposal = 0.1;
  constexpr double draft_token = 0.3;
  constexpr double reading = 0.02;
  constexpr double look_up = 0.002;
  DraftCosts costs;
  for (int n = 0; n <= draft_max; ++n) costs.verify.push_back(1 + row * n);
  for (const ExpectedStage& stage : stages) {
    costs.draft.push_back({0});
    for (int n = 1; n <= stage.draft_max; ++n) {
      costs.draft.back().push_back(stage.reads_text_only ? look_up : proposal + draft_token * n);
    }
    costs.reading.push_back(stage.reads_text_only ? 0 : reading);
  }
  return costs;
}

void Votes::add(const std::vector<Weighted>& more) {
  for (const Weighted& one : more) keep_last(votes_, one, votes, 1);
  median_ = lower_median(votes_);
}

CostLine::CostLine(const std::vector<double>& expected)
    : of_none_(expected[0]),
      expected_first_(expected[1]),
      expected_each_(0) {
  if (const auto more = static_cast<double>(expected.size()) - 2; more > 0) {
    expected_each_ = std::max(0.0, (expected.back() - expected[1]) / more);
  }
  expected_first_ = std::max(0.0, expected[1] - expected_each_);
  first_ = expected_first_;
  each_ = expected_each_;
}

void CostLine::learn(int n, double cost) {
  keep_last(measured_, {n, cost}, measurements);
  fit();
}

/// Theil and Sen's line: a minority of the measurements cannot move it far.
void CostLine::fit() {
  std::vector<Weighted> slopes = {{expected_each_}};
  for (const Measured& a : measured_) {
    for (const Measured& b : measured_) {
      if (a.n < b.n) slopes.push_back({(b.cost - a.cost) / (b.n - a.n)});
    }
  }
  each_ = std::max(0.0, lower_median(slopes));
  std::vector<Weighted> firsts = {{expected_first_}};
  for (const Measured& one : measured_) firsts.push_back({one.cost - one.n * each_});
  first_ = std::max(0.0, lower_median(firsts));
}

MeasuredCosts::MeasuredCosts(DraftCosts expected) : expected_(std::move(expected)), rows_factor_(1, 0) {
  REQUIRE(expected_.verify.size() >= 2, "a round can have a draft token");
  REQUIRE(expected_.verify[0] > 0, "a pass costs something");
  REQUIRE(expected_.reading.size() == expected_.draft.size(), "every stage has its costs");
  const double plain = expected_.verify[0];
  for (std::size_t stage = 0; stage < expected_.draft.size(); ++stage) {
    std::vector<double> draft = expected_.draft[stage];
    REQUIRE(draft.size() >= 2 && draft.size() <= expected_.verify.size(), "every proposal can be verified");
    for (double& cost : draft) cost /= plain;
    draft_.emplace_back(draft);
    reading_.emplace_back(expected_.reading[stage] / plain);
  }
  // A longer pass takes no less time: one that does shows that the shorter was disturbed.
  more_.resize(expected_.verify.size());
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t n = more_.size(); n-- > 0;) {
    least = std::min(least, expected_.verify[n] / plain - 1);
    more_[n] = std::max(least, least_row * static_cast<double>(n));
  }
  rows_factor_ = Votes(1, more_.back() / (1 + more_.back()));
}

/// Learns the factor of what more rows cost. Two passes at the same speed of the machine with
///   seconds(1) / seconds(2) = (1 + factor more(1)) / (1 + factor more(2))
/// have one. It is the surer the more their rows differ.
void MeasuredCosts::compare_with_last(const Pass& pass) {
  std::vector<Weighted> factors;
  for (const Pass& last : passes_) {
    const Pass& longer = last.drafted > pass.drafted ? last : pass;
    const Pass& other = last.drafted > pass.drafted ? pass : last;
    const double more = more_[place(longer.drafted)];
    const double less = more_[place(other.drafted)];
    if (1 + longer.drafted < 2 * (1 + other.drafted) || !(more > less)) continue;
    const double ratio = longer.seconds / other.seconds;
    const double scale = more - ratio * less;
    const double factor = scale > 0 ? std::clamp((ratio - 1) / scale, 0.0, factor_most) : factor_most;
    factors.push_back({factor, (more - less) / ((1 + more) * (1 + less))});
  }
  if (!factors.empty()) rows_factor_.add(factors);
}

void MeasuredCosts::learn_verify(int drafted, const RoundSeconds& seconds) {
  if (seconds.verify < least_seconds) return;
  const Pass pass = {drafted, seconds.verify};
  compare_with_last(pass);
  keep_last(passes_, pass, passes_apart);
}

void MeasuredCosts::learn_draft(int stage, int n, int more, int drafted, const RoundSeconds& seconds) {
  if (seconds.verify < least_seconds) return;
  const double cost = seconds.draft / seconds.verify * verify(drafted);
  CostLine& draft = draft_[place(stage)];
  Votes& reading = reading_[place(stage)];
  if (more > 0) reading.add({{std::max(0.0, cost - draft.at(n)) / more}});
  else draft.learn(n, cost);
}

}  // namespace draftproof
