// SPDX-License-Identifier: MIT
#include "ref/decoding/draft_lengths.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ref/base/require.h"

namespace draftproof {
namespace {

/// What an estimate begins with, and returns to: so many draft tokens of which so many were accepted.
constexpr double tried_at_first = 2;
constexpr double accepted_at_first = 1.6;
constexpr double kept_per_pass = 0.995;  // half of it after 140 passes

/// Sizes up to 8 are a class each, larger ones a quarter of what lies between two powers of two.
std::size_t class_of(int size) {
  const auto value = static_cast<std::size_t>(std::clamp(size, 1, 1 << 16));
  if (value < 8) return value;
  const auto power = static_cast<std::size_t>(std::bit_width(value)) - 1;
  return 8 + 4 * (power - 3) + (value >> (power - 2)) % 4;
}

}  // namespace

/// A size that was not met lately is expected to take what it should, so that it is tried.
double DraftLengths::Factors::of(int size) const { return by_size_[class_of(size)].with(std::min(1.0, all_.with(1))); }

void DraftLengths::Factors::learn(int size, double factor) {
  for (Mean* const mean : {&all_, &by_size_[class_of(size)]}) {
    mean->sum += factor;
    mean->count += 1;
  }
}

void DraftLengths::Factors::forget() {
  const auto forget_mean = [](Mean& mean) {
    mean.sum *= kept_per_pass;
    mean.count *= kept_per_pass;
  };
  forget_mean(all_);
  for (Mean& mean : by_size_) forget_mean(mean);
}

DraftLengths::DraftLengths(DraftCosts costs) : costs_(std::move(costs)) {
  REQUIRE(costs_.verify.size() >= 2, "the costs say what one row more takes");
  std::size_t longest = 0;
  for (const auto& stage : costs_.draft) longest = std::max(longest, stage.size());
  depths_.resize(longest == 0 ? 0 : longest - 1, {tried_at_first, accepted_at_first});
}

/// The seconds of a pass of so many rows, by the costs.
double DraftLengths::expected_pass(int rows) const {
  const auto measured = static_cast<int>(costs_.verify.size());
  if (rows <= measured) return costs_.verify[static_cast<std::size_t>(rows - 1)];
  const double first = costs_.verify.front();
  const double last = costs_.verify.back();
  const double each = std::max(0.0, (last - first) / (measured - 1));
  return last + each * (rows - measured);
}

/// The seconds that so many proposals take together, by the most expensive of the stages.
double DraftLengths::expected_proposals(int sequences, int draft_tokens) const {
  double one = 0;
  for (const auto& stage : costs_.draft) {
    if (stage.empty()) continue;
    one = std::max(one, stage[std::min(stage.size() - 1, static_cast<std::size_t>(draft_tokens))]);
  }
  const int rows = std::max(1, draft_tokens);
  return one * expected_pass(sequences * rows) / expected_pass(rows);
}

double DraftLengths::proposals(int sequences, int draft_tokens) const {
  const double expected = expected_proposals(sequences, draft_tokens);
  return draft_tokens == 0 ? expected : expected * proposal_factors_.of(sequences * draft_tokens);
}

DraftLengths::Worth DraftLengths::worth(int sequences) const {
  const double plain = pass(sequences) + proposals(sequences, 0);
  Worth best;
  double expected = 1;
  double reached = 1;
  for (int k = 1; k <= static_cast<int>(depths_.size()); ++k) {
    const Depth& depth = depths_[static_cast<std::size_t>(k - 1)];
    reached *= depth.accepted / depth.tried;
    expected += reached;
    const Worth of_length = {k, expected, (pass(sequences * (1 + k)) + proposals(sequences, k)) / plain};
    if (k == 1 || of_length.speedup() > best.speedup()) best = of_length;
  }
  return best;
}

int DraftLengths::max(int sequences) const {
  const Worth best = worth(sequences);
  return best.speedup() > 1 ? best.draft_tokens : 0;
}

void DraftLengths::learn(int drafted, int accepted) {
  for (int d = 0; d < std::min({drafted, accepted + 1, static_cast<int>(depths_.size())}); ++d) {
    Depth& depth = depths_[static_cast<std::size_t>(d)];
    depth.tried += 1;
    if (d < accepted) depth.accepted += 1;
  }
}

void DraftLengths::learn_pass(int rows, double seconds) {
  if (const double expected = expected_pass(rows); expected > 0) pass_factors_.learn(rows, seconds / expected);
}

void DraftLengths::learn_proposals(int sequences, int draft_tokens, double seconds) {
  REQUIRE(sequences > 0, "a sequence has proposed");
  if (draft_tokens == 0) return;  // with none, drafts only observe
  const double expected = expected_proposals(sequences, draft_tokens);
  if (expected > 0) proposal_factors_.learn(sequences * draft_tokens, seconds / expected);
}

void DraftLengths::forget() {
  pass_factors_.forget();
  proposal_factors_.forget();
  for (Depth& depth : depths_) {
    depth.tried = tried_at_first + (depth.tried - tried_at_first) * kept_per_pass;
    depth.accepted = accepted_at_first + (depth.accepted - accepted_at_first) * kept_per_pass;
  }
}

}  // namespace draftproof
