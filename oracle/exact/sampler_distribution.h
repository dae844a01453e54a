// SPDX-License-Identifier: MIT
// The exact distribution of any sampler: a program that samples a text and takes every random draw from the
// RandomSource it is given. It is run twice per path, so this is for small weights and short texts only. A sampler that
// cannot be enumerated is reported as such.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracle/exact/exact_distribution.h"
#include "ref/acceptance/distribution.h"
#include "ref/acceptance/random_source.h"

namespace draftproof {

using TextSampler = std::function<std::vector<Token>(RandomSource&)>;

/// The random numbers of a sampler that knows no keys: each is a new uniform number.
class Coins {
 public:
  explicit Coins(RandomSource& random) : random_(random) {}
  std::uint64_t below(std::uint64_t bound);  // uniform in [0, bound), 1 <= bound <= 2^16

 private:
  RandomSource& random_;
  std::int32_t drawn_ = 0;
};

struct SamplerDistribution {
  TextDistribution distribution;  // of the texts it can sample
  long paths = 0;
  std::string fault;  // why it cannot be enumerated; empty when it could
};

/// Gives up after a million paths, after a thousand draws on one path, and on a sampler that keeps state between calls:
/// every path is run twice, and the second run must draw and return what the first did.
SamplerDistribution compute_distribution(const TextSampler& sampler);

/// Returns the distribution of one token by weights, whatever they sum to.
TextDistribution distribution_from(const std::vector<std::uint64_t>& weights);
TextDistribution distribution_from(const Distribution& distribution);

/// Returns "P(1 2) = 3/8, P(2) = 5/8"; the first few texts.
std::string text_of(const TextDistribution& distribution);

/// Returns how `found` differs from `expected`: total variation and the text that differs most. Empty when they are
/// equal.
std::string deviation(const TextDistribution& found, const TextDistribution& expected);

}  // namespace draftproof
