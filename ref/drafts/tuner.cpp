// SPDX-License-Identifier: MIT
#include "ref/drafts/tuner.h"

#include <algorithm>
#include <utility>

#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr double first_estimate = 0.85;
constexpr double weight = 8;                    // of an estimate that is taken from the depth before, in draft tokens
constexpr double weight_of_product = 16;        // of the estimates of all depths, in proposals that reached the last
constexpr double kept = 1 - 1.0 / 32;           // of what a depth has shown before, after each round that tries it
constexpr double kept_untried = 1 - 1.0 / 256;  // the same after each round that drafts and does not reach it
constexpr double kept_lately = 1 - 1.0 / 32;    // of what rounds gave before, after each
constexpr double weight_of_plain = 2;           // of the rate of plain decoding, in tokens
constexpr int plain_every = 24;                 // rounds with draft tokens, at least
constexpr int first_proposal = 2;               // draft tokens, at most
constexpr int growth = 4;                       // of proposals, over the longest before

std::size_t place(int index) noexcept { return static_cast<std::size_t>(index); }

}  // namespace

void Tuner::Share::learn(bool tried, bool holds) {
  const double remembered = tried ? kept : kept_untried;
  of = remembered * of + (tried ? 1 : 0);
  count = remembered * count + (tried && holds ? 1 : 0);
}

void Tuner::Account::forget(double kept) {
  for (double& one : passes) one *= kept;
  for (std::vector<double>& stage : asked) {
    for (double& one : stage) one *= kept;
  }
  for (double& one : read) one *= kept;
  output *= kept;
}

Tuner::Tuner(DraftCosts costs) : costs_(std::move(costs)) {
  Account none;
  none.passes.resize(costs_.expected().verify.size());
  none.read.resize(place(costs_.stages()));
  for (int stage = 0; stage < costs_.stages(); ++stage) none.asked.emplace_back(place(costs_.max(stage)) + 1);
  all_ = lately_ = none;
  for (int stage = 0; stage < costs_.stages(); ++stage) {
    stages_.push_back({.depths = std::vector<Depth>(place(costs_.max(stage))), .probes = none});
  }
}

double Tuner::cost(const Account& account) const {
  double sum = 0;
  for (std::size_t n = 0; n < account.passes.size(); ++n) {
    if (account.passes[n] > 0) sum += account.passes[n] * costs_.verify(static_cast<int>(n));
  }
  for (int stage = 0; stage < costs_.stages(); ++stage) {
    const std::vector<double>& asked = account.asked[place(stage)];
    for (std::size_t n = 0; n < asked.size(); ++n) {
      if (asked[n] > 0) sum += asked[n] * costs_.draft(stage, static_cast<int>(n));
    }
    sum += account.read[place(stage)] * costs_.reading(stage);
  }
  return sum;
}

double Tuner::tokens_to_read(int stage) const {
  return std::max(0, stages_[place(stage)].unread - DraftCosts::observed);
}

double Tuner::risk(int stage, int n) const {
  return costs_.verify(n) - 1 + costs_.draft(stage, n) + tokens_to_read(stage) * costs_.reading(stage);
}

/// Output tokens per pass of plain decoding; at least those of plain decoding.
double Tuner::rate() const {
  return std::max(1.0, (lately_.output + weight_of_plain) / (cost(lately_) + weight_of_plain));
}

/// The best length of a proposal, or 0 when none pays. `as_at_first`: by the first estimates, and at least 1.
Tuner::Choice Tuner::best(int stage, int limit, bool as_at_first) const {
  const std::vector<Depth>& depths = stages_[place(stage)].depths;
  const double reading = costs_.reading(stage);
  const double rate = as_at_first ? 1 : this->rate();
  Choice choice;
  if (as_at_first) choice.value = -1e9;
  else choice.value = 1 - rate * (1 + costs_.draft(stage, 0));
  double estimate = first_estimate;
  double offered = 1;
  double rows = 0;  // what the pass costs more
  double drafting = 0;
  double reaches = 1;  // a proposal goes on to here
  double whole = 1;    // and all of it is accepted then
  bool stops = false;  // whether proposals have ended before
  double expected = 1;
  limit = std::min(limit, static_cast<int>(depths.size()));
  for (int n = 1; n <= limit; ++n) {
    const Depth& depth = depths[place(n) - 1];
    if (!as_at_first) {
      estimate = depth.accepted.with(estimate, weight);
      offered = depth.offered.with(n <= 2 ? 1 : offered, 1);
      stops = stops || depth.offered.count < depth.offered.of;
    }
    const double goes_on = costs_.has_passes(stage) ? reaches : 1;
    drafting += goes_on * (costs_.draft(stage, n) - (n == 1 ? 0 : costs_.draft(stage, n - 1)));
    whole *= estimate;
    if (stops) whole = depth.whole.with(whole, weight_of_product);
    reaches *= offered;
    expected += reaches * whole;
    rows += reaches * (costs_.verify(n) - costs_.verify(n - 1));
    const double observing = std::max(0.0, expected - DraftCosts::observed) * reading;
    const double value = expected - rate * (1 + rows + drafting + observing);
    if (value > choice.value) choice = {n, value};
  }
  return choice;
}

/// Whether the next round is to be left out because all draft, so that what plain decoding costs now is not known.
bool Tuner::plain_wanted() const {
  if (costs_.measured() && !plain_measured_) return true;
  const double lost = 1 - 1 / rate();
  return since_plain_ >= plain_every && left_out_ + lost <= probing * cost(all_);
}

int Tuner::length(int stage, int limit) const {
  const Stage& one = stages_[place(stage)];
  limit = std::min({limit, static_cast<int>(one.depths.size()), std::max(first_proposal, growth * one.longest)});
  // No longer than can be lost.
  const double allowed = loss_at_start + loss * all_.output + gained(all_);
  while (limit > 0 && risk(stage, limit) > allowed) --limit;
  if (limit == 0 || plain_wanted()) return 0;
  const Choice mine = best(stage, limit, false);
  for (int later = stage + 1; later < static_cast<int>(stages_.size()); ++later) {
    if (best(later, limit, false).value > mine.value) return 0;
  }
  if (mine.drafted > 0) return mine.drafted;
  const int probe = best(stage, limit, true).drafted;
  const double probed = -gained(one.probes);
  return probed <= 0 || probed + risk(stage, probe) <= probing * all_.output ? probe : 0;
}

std::vector<int> Tuner::computed(const std::vector<int>& asked, int drafted) const {
  std::vector<int> list = asked;
  for (int stage = 0; stage < static_cast<int>(list.size()); ++stage) {
    const int of_stage = stage + 1 == static_cast<int>(list.size()) ? drafted : 0;
    if (costs_.has_passes(stage)) list[place(stage)] = std::min(list[place(stage)], of_stage + 1);
  }
  return list;
}

void Tuner::enter(Account& account, const std::vector<int>& computed, int drafted, int accepted) const {
  ++account.passes[place(drafted)];
  for (int stage = 0; stage < costs_.stages(); ++stage) {
    const int n = stage < static_cast<int>(computed.size()) ? computed[place(stage)] : 0;
    ++account.asked[place(stage)][place(n)];
    if (n > 0) account.read[place(stage)] += tokens_to_read(stage);
  }
  account.output += accepted + 1;
}

void Tuner::learn_acceptance(Stage& stage, int asked, int drafted, int accepted) {
  stage.longest = std::max(stage.longest, drafted);
  for (int d = 0; d < static_cast<int>(stage.depths.size()); ++d) {
    Depth& depth = stage.depths[place(d)];
    depth.offered.learn(d < asked && d <= drafted, d < drafted);
    if (drafted == 0) continue;
    depth.accepted.learn(d < drafted && d <= accepted, d < accepted);
    depth.whole.learn(d < drafted, d < accepted);
  }
}

void Tuner::learn(const std::vector<int>& asked, int drafted, int accepted,
                  const std::optional<RoundSeconds>& seconds) {
  REQUIRE(accepted <= drafted, "accepted draft tokens were proposed");
  REQUIRE(asked.size() <= stages_.size() && (drafted == 0 || drafted <= asked.back()), "the stages were asked");
  const double left_out = drafted == 0 && plain_wanted() ? 1 - 1 / rate() : 0;
  const std::vector<int> computed = this->computed(asked, drafted);
  lately_.forget(kept_lately);
  for (Account* const account : {&all_, &lately_}) enter(*account, computed, drafted, accepted);
  left_out_ += left_out;
  int last = -1;
  for (int stage = 0; stage < static_cast<int>(asked.size()); ++stage) {
    const int n = asked[place(stage)];
    if (n == 0) continue;
    last = stage;
    Stage& one = stages_[place(stage)];
    const bool proposed = drafted > 0 && stage + 1 == static_cast<int>(asked.size());
    if (proposed && best(stage, n, false).drafted == 0) enter(one.probes, computed, drafted, accepted);
    learn_acceptance(one, n, proposed ? drafted : 0, proposed ? accepted : 0);
  }
  if (seconds) {
    costs_.learn_verify(drafted, *seconds);
    if (last >= 0) {
      const int more = stages_[place(last)].unread - DraftCosts::observed;
      costs_.learn_draft(last, computed[place(last)], more, drafted, *seconds);
    }
    plain_measured_ = plain_measured_ || drafted == 0;
    since_plain_ = drafted > 0 ? since_plain_ + 1 : 0;
  }
  for (int stage = 0; stage < static_cast<int>(stages_.size()); ++stage) {
    int& unread = stages_[place(stage)].unread;
    if (stage < static_cast<int>(asked.size()) && asked[place(stage)] > 0) unread = 0;
    unread += accepted + 1;
  }
}

}  // namespace draftproof
