// SPDX-License-Identifier: MIT
#include "oracle/sequential/rounded_distribution.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr double units_lost = 4;

}  // namespace

RoundedDistribution rounded_distribution(std::span<const Token> tokens, std::span<const double> weights, double unit) {
  REQUIRE(!tokens.empty() && tokens.size() == weights.size(), "a row has tokens, and one weight for each");
  double sum = 0;
  double lost = static_cast<double>(weights.size()) * 0x1p-51;
  for (const double weight : weights) {
    REQUIRE(weight > 0 && std::isfinite(weight), "weights are positive and finite");
    sum += weight;
    lost += std::min(weight, units_lost * unit) + std::min(weight, unit / 2);
  }
  REQUIRE(std::isfinite(sum), "a row has a sum");

  // The remainder, positive or negative, goes to the most likely token, which has at least 2^52 / n, more than that.
  std::vector<std::uint64_t> shares;
  std::uint64_t left = Distribution::total;
  for (const double weight : weights) {
    const auto share = static_cast<std::uint64_t>(weight / sum * static_cast<double>(Distribution::total));
    shares.push_back(std::max(share, std::uint64_t{1}));
    left -= shares.back();
  }
  const auto likeliest = std::max_element(weights.begin(), weights.end()) - weights.begin();
  shares[likeliest] += left;  // modulo 2^64 where it is negative
  return {Distribution::exact(tokens, shares), std::min(lost + std::abs(sum - 1), 1.0)};
}

}  // namespace draftproof
