// SPDX-License-Identifier: MIT
// Requests that are decoded together with that of a trial, and what each of them gives alone.
#pragma once

#include <optional>
#include <vector>

#include "oracle/checks/check.h"

namespace draftproof {

/// Notices a draw under the key of another sequence. Fails at the k-th draw, if one is stated.
class OneSequence final : public RandomSource {
 public:
  OneSequence(std::uint64_t seed, int sequence, int fails_at = -1)
      : source_(seed), sequence_(sequence), left_(fails_at) {}
  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override;
  bool foreign() const noexcept { return foreign_; }

 private:
  PhiloxSource source_;
  int sequence_;
  int left_;  // draws before the failure; negative: none fails
  bool foreign_ = false;
};

/// Returns `count` requests that differ in prompt, sampling, stop tokens and length, the trial's own first. Their
/// variations are those of the trial's drafts, with one kernel table, number of threads and verification. Empty when
/// the trial has no run.
std::vector<Companion> make_companions(Trial& trial, int count);

/// Returns what each companion gives when it is decoded alone.
std::vector<Trace> alone(Trial& trial, std::span<const Companion> companions);

/// Compares companions that were run together with what they give alone: a cancelled one and one with an error as far
/// as they came. `randoms` are theirs. The drafts of whole texts must have observed the same.
void expect_as_alone(std::span<const Companion> companions, std::span<const Trace> expected, const JointRun& run,
                     std::span<const OneSequence> randoms, const std::string& how, Examination& examination);

}  // namespace draftproof
