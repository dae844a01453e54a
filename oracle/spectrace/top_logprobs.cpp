// SPDX-License-Identifier: MIT
#include "oracle/spectrace/top_logprobs.h"

#include <algorithm>

#include "kernels/math64.h"

namespace draftproof::spectrace {
namespace {

/// How many tokens of a list are among the likeliest for certain: all, but for the emitted one where it may have been
/// added to them, because none is less likely.
std::size_t likeliest_in(const RealRow& list, Token emitted) {
  const auto place = std::ranges::find(list.tokens, emitted);
  if (place == list.tokens.end()) return list.tokens.size();
  const double min = *std::ranges::min_element(list.weights);
  const bool added = list.weights[static_cast<std::size_t>(place - list.tokens.begin())] == min;
  return list.tokens.size() - (added ? 1 : 0);
}

}  // namespace

std::optional<RoundedDistribution> TopLogprobs::distribution(const RealRow& list, const Header& header) const {
  RealRow top;
  double sum = 0;
  for (std::size_t i = 0; i < list.tokens.size(); ++i) {
    const double p = exp64(list.weights[i]);
    if (p <= 0) continue;
    top.tokens.push_back(list.tokens[i]);
    top.weights.push_back(p);
    sum += p;
  }
  const double rounding = 16 * header.unit;
  if (top.tokens.empty() || sum > 1 + rounding * static_cast<double>(top.tokens.size())) return std::nullopt;
  const std::size_t likeliest = std::min(likeliest_.value_or(0), shortest_);
  const std::size_t used = std::max(likeliest, std::size_t{1}) - 1;
  while (top.tokens.size() > used) {
    const double min = *std::ranges::min_element(top.weights);
    for (std::size_t i = top.tokens.size(); i-- > 0;) {
      if (top.weights[i] != min) continue;
      sum -= min;
      top.tokens.erase(top.tokens.begin() + static_cast<std::ptrdiff_t>(i));
      top.weights.erase(top.weights.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (1 - sum > rounding) {
    top.tokens.push_back(header.vocabulary);
    top.weights.push_back(1 - sum);
  }
  RoundedDistribution distribution = rounded_distribution(top.tokens, top.weights, header.unit);
  distribution.slack += rounding * static_cast<double>(top.tokens.size());
  return distribution;
}

void TopLogprobs::learn(const RealRow& list, Token emitted) {
  const std::size_t listed = list.tokens.size();
  shortest_ = likeliest_ ? std::min(shortest_, listed) : listed;
  likeliest_ = std::max(likeliest_.value_or(0), likeliest_in(list, emitted));
}

}  // namespace draftproof::spectrace
