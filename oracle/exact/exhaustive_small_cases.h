// SPDX-License-Identifier: MIT
// The parts that decide tokens, each run on everything small: the rules on every pair of small distributions with every
// random answer, uniform integers on every word, rows of hostile logits under every cut. Exact equality; nothing here
// depends on a model, so it holds for a build.
#pragma once

#include <cstdint>
#include <span>

#include "oracle/checks/check.h"
#include "ref/acceptance/rule.h"
#include "ref/acceptance/sampling.h"
#include "ref/acceptance/uniform.h"

namespace draftproof {

/// A uniform integer below `bound` from the first of `words` that does not have to be tried again; `used` counts words.
using SmallUniform = std::uint8_t (*)(std::uint8_t bound, std::span<const std::uint8_t> words, int& used);
std::uint8_t small_uniform(std::uint8_t bound, std::span<const std::uint8_t> words, int& used);

using RowReader = Distribution (*)(std::span<const float> logits, const Sampling& sampling, const History& history);

/// What is exhausted: the production code, unless a test puts something wrong in its place.
struct Primitives {
  std::span<const Rule* const> rules;
  RowReader read = distribution_of;
  SmallUniform below = small_uniform;
  bool trees = true;  // rules are to judge trees, too
};

/// The production's, all rules.
Primitives production();

Finding check_exhaustive_small_cases(const Primitives& primitives);

}  // namespace draftproof
