// SPDX-License-Identifier: MIT
#include "ref/drafts/tuner.h"

#include <algorithm>
#include <utility>

#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr double first_estimate = 0.85;
constexpr double weight = 8;                    // of an estimate that is taken from the depth before, in draft tokens
constexpr double kept = 1 - 1.0 / 32;           // of what a depth has shown before, after each round that tries it
constexpr double kept_untried = 1 - 1.0 / 256;  // the same after each round that drafts and does not reach it

}  // namespace

Tuner::Tuner(DraftCosts costs) : costs_(std::move(costs)) {
  REQUIRE(costs_.verify.size() >= 2, "a round can have a draft token");
  REQUIRE(costs_.reading.size() == costs_.draft.size(), "every stage has its costs");
  for (const std::vector<double>& draft : costs_.draft) {
    REQUIRE(draft.size() >= 2 && draft.size() <= costs_.verify.size(), "every proposal can be verified");
    stages_.push_back({std::vector<Depth>(draft.size() - 1)});
    without_draft_ = std::max(without_draft_, plain() + draft[0]);
  }
}

double Tuner::cost(int stage, int asked, int drafted) const {
  const std::vector<double>& draft = costs_.draft[static_cast<std::size_t>(stage)];
  return costs_.verify[static_cast<std::size_t>(drafted)] + draft[static_cast<std::size_t>(asked)];
}

double Tuner::reading(int stage) const {
  const int more = stages_[static_cast<std::size_t>(stage)].unread - DraftCosts::observed;
  return std::max(0, more) * costs_.reading[static_cast<std::size_t>(stage)];
}

/// The best length of a proposal, or 0 when none pays. `as_at_first`: by the first estimates, and at least 1.
Tuner::Choice Tuner::best(int stage, int limit, bool as_at_first) const {
  const std::vector<Depth>& depths = stages_[static_cast<std::size_t>(stage)].depths;
  const double reading = costs_.reading[static_cast<std::size_t>(stage)];
  Choice choice;
  if (!as_at_first) choice.rate = 1 / without_draft_;
  double estimate = first_estimate;
  double reached = 1;
  double expected = 1;
  limit = std::min(limit, static_cast<int>(depths.size()));
  for (int n = 1; n <= limit; ++n) {
    const Depth& depth = depths[static_cast<std::size_t>(n) - 1];
    if (!as_at_first) estimate = (depth.accepted + weight * estimate) / (depth.tried + weight);
    reached *= estimate;
    expected += reached;
    const double observing = std::max(0.0, expected - DraftCosts::observed) * reading;
    const double rate = expected / (cost(stage, n, n) + observing);
    if (rate > choice.rate) choice = {n, rate};
  }
  return choice;
}

int Tuner::length(int stage, int limit) const {
  limit = std::min(limit, static_cast<int>(stages_[static_cast<std::size_t>(stage)].depths.size()));
  // No longer than can be lost.
  const double allowed = patience * plain() + loss * plain_time_ + gained_ - reading(stage);
  while (limit > 0 && cost(stage, limit, limit) - plain() > allowed) --limit;
  if (limit == 0) return 0;
  const Choice mine = best(stage, limit, false);
  for (int later = stage + 1; later < static_cast<int>(stages_.size()); ++later) {
    const Stage& other = stages_[static_cast<std::size_t>(later)];
    const double proposes = (1 + other.proposed) / (1 + other.asked);
    const double rate = proposes * best(later, limit, false).rate + (1 - proposes) / without_draft_;
    if (rate > mine.rate) return 0;
  }
  if (mine.drafted > 0) return mine.drafted;
  const int probe = best(stage, limit, true).drafted;
  const double lost = reading(stage) + cost(stage, probe, probe) - plain();
  const double probed = stages_[static_cast<std::size_t>(stage)].probed;
  return probed <= 0 || probed + lost <= probing * plain_time_ ? probe : 0;
}

/// A stage was asked and proposed nothing. Returns what that has cost.
double Tuner::nothing_proposed(int stage, int asked) {
  Stage& one = stages_[static_cast<std::size_t>(stage)];
  one.asked = kept * one.asked + 1;
  one.proposed *= kept;
  const double paid = reading(stage) + costs_.draft[static_cast<std::size_t>(stage)][static_cast<std::size_t>(asked)];
  one.unread = 0;
  return paid;
}

/// A stage was asked and proposed something. Returns what that and the verification have cost.
double Tuner::proposed(int stage, int asked, int drafted, int accepted) {
  Stage& one = stages_[static_cast<std::size_t>(stage)];
  const double paid = reading(stage) + cost(stage, asked, drafted);
  one.unread = 0;
  if (best(stage, asked, false).drafted == 0) one.probed += paid - (accepted + 1) * plain();
  one.asked = kept * one.asked + 1;
  one.proposed = kept * one.proposed + 1;
  for (int depth = 0; depth < static_cast<int>(one.depths.size()); ++depth) {
    Depth& known = one.depths[static_cast<std::size_t>(depth)];
    const bool tried = depth < drafted && depth <= accepted;
    const double remembered = tried ? kept : kept_untried;
    known.tried = remembered * known.tried + (tried ? 1 : 0);
    known.accepted = remembered * known.accepted + (depth < accepted ? 1 : 0);
  }
  return paid;
}

void Tuner::learn(const std::vector<int>& asked, int drafted, int accepted) {
  REQUIRE(accepted <= drafted, "accepted draft tokens were proposed");
  REQUIRE(asked.size() <= stages_.size() && (drafted == 0 || drafted <= asked.back()), "the stages were asked");
  double paid = drafted > 0 ? 0 : without_draft_;
  for (int stage = 0; stage < static_cast<int>(asked.size()); ++stage) {
    const int of_stage = asked[static_cast<std::size_t>(stage)];
    if (of_stage == 0) continue;
    const bool last = stage + 1 == static_cast<int>(asked.size());
    paid += last && drafted > 0 ? proposed(stage, of_stage, drafted, accepted) : nothing_proposed(stage, of_stage);
  }
  const double output = (accepted + 1) * plain();
  for (Stage& one : stages_) one.unread += accepted + 1;
  plain_time_ += output;
  gained_ += output - paid;
}

}  // namespace draftproof
