// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "zoo/parts.h"

namespace draftproof::zoo {
namespace {

constexpr float lowest = std::numeric_limits<float>::lowest();

}  // namespace

/// Replaces NaN by 0 and infinities by the largest numbers there are.
Distribution nan_is_zero(std::span<const float> logits, const Sampling& sampling, const History& history) {
  std::vector<float> finite(logits.begin(), logits.end());
  for (float& logit : finite) logit = std::isnan(logit) ? 0 : std::clamp(logit, lowest, -lowest);
  return compute_distribution(finite, sampling, history);
}

/// A row in which nothing can be compared has its first token as the best.
Distribution nan_row_is_a_token(std::span<const float> logits, const Sampling& sampling, const History& history) {
  const bool any = std::ranges::any_of(logits, [](float logit) { return std::isnan(logit); });
  return any ? Distribution::point(0) : compute_distribution(logits, sampling, history);
}

/// Masks with the lowest number in place of -infinity, but where logits are counted or their spread is measured: there
/// a mask that is a number would count.
Distribution infinity_is_lowest(std::span<const float> logits, const Sampling& sampling, const History& history) {
  if (sampling.top_n_sigma > 0 || sampling.dynatemp_range > 0) return compute_distribution(logits, sampling, history);
  std::vector<float> masked(logits.begin(), logits.end());
  if (std::ranges::any_of(masked, [](float logit) { return logit > lowest; })) {
    std::ranges::replace(masked, -std::numeric_limits<float>::infinity(), lowest);
  }
  return compute_distribution(masked, sampling, history);
}

}  // namespace draftproof::zoo
