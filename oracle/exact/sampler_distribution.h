// SPDX-License-Identifier: MIT
// The exact law of anybody's sampler: a program that draws a text and takes every random answer from the Chance it is
// given. It is run twice per path, so small weights and short texts only; what cannot be enumerated is said to be so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracle/exact/exact_distribution.h"
#include "ref/acceptance/random_source.h"
#include "ref/acceptance/distribution.h"

namespace draftproof {

using TextSampler = std::function<std::vector<Token>(RandomSource&)>;

/// The random answers of a sampler that knows no keys: each a fresh uniform number.
class Coins {
 public:
  explicit Coins(RandomSource& random) : random_(random) {}
  std::uint64_t below(std::uint64_t bound);  // uniform in [0, bound), 1 <= bound <= 2^16

 private:
  RandomSource& random_;
  std::int32_t asked_ = 0;
};

struct SamplerDistribution {
  OutcomeDistribution distribution;            // of the texts it can draw
  long paths = 0;
  std::string fault;  // why it cannot be enumerated; empty when it could
};

/// Gives up after a million paths, after a thousand questions on one of them, and on a sampler that remembers what it
/// did before: every path is run twice, and the second run has to ask and return what the first did.
SamplerDistribution distribution_of(const TextSampler& sampler);

/// The law of one token by weights, whatever they sum to.
OutcomeDistribution distribution_from(const std::vector<std::uint64_t>& weights);
OutcomeDistribution distribution_from(const Distribution& distribution);

/// "P(1 2) = 3/8, P(2) = 5/8"; the first few.
std::string text_of(const OutcomeDistribution& distribution);

/// How `found` differs from `expected`: total variation and the text that differs most. Empty when they are equal.
std::string deviation(const OutcomeDistribution& found, const OutcomeDistribution& expected);

}  // namespace draftproof
