// SPDX-License-Identifier: MIT
// The distribution of a row, computed step by step as ref/acceptance/ranked_sampler.h and docs/numerics.md define it:
// by full sorts, lists and wide integers, from the weights of the production code's exponential. Without penalties and
// DRY, which need a text.
#pragma once

#include <optional>
#include <span>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/sampling_params.h"

namespace draftproof {

/// Returns nothing when the row must be refused.
std::optional<Distribution> expected_row(std::span<const float> logits, const Sampling& sampling);

}  // namespace draftproof
