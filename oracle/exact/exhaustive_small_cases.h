// SPDX-License-Identifier: MIT
// Runs the parts that decide tokens on every small case: the rules on every pair of small distributions with every
// random draw, uniform integers on every word, adversarial logits under every truncation. Equality is exact. Nothing
// here depends on a model, so the result holds for a build.
#pragma once

#include <cstdint>
#include <span>

#include "oracle/exact/build_checks.h"
#include "ref/acceptance/rule.h"
#include "ref/acceptance/sampler.h"
#include "ref/acceptance/uniform.h"

namespace draftproof {

/// Returns a uniform integer below `bound` from the first of `words` that does not have to be retried; `used` is the
/// number of words used.
using SmallUniform = std::uint8_t (*)(std::uint8_t bound, std::span<const std::uint8_t> words, int& used);
std::uint8_t small_uniform(std::uint8_t bound, std::span<const std::uint8_t> words, int& used);

using RowReader = Distribution (*)(std::span<const float> logits, const Sampling& sampling, const History& history);

/// The code that is run: production code, unless a test replaces a part with a wrong one.
struct Primitives {
  std::span<const Rule* const> rules;
  RowReader read = compute_distribution;
  SmallUniform below = small_uniform;
  bool trees = true;  // the rules verify trees, too
};

/// Returns the production code with all rules.
Primitives production();

Finding check_exhaustive_small_cases(const Primitives& primitives);

}  // namespace draftproof
