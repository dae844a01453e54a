// SPDX-License-Identifier: MIT
// A naive implementation, step by step as documented, from a row of logits to integer weights: with a full sort and
// wide integers. Sampler and Distribution are compared with it.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "kernels/exp.h"
#include "ref/acceptance/sampler.h"

namespace draftproof {

/// Normalizes raw weights of any size up to 2^40, by token.
inline Distribution naive_quantized(const std::vector<std::uint64_t>& raw) {
  using Wide = unsigned __int128;
  const std::uint64_t sum = std::accumulate(raw.begin(), raw.end(), std::uint64_t{0});
  const auto reciprocal = static_cast<std::uint64_t>((Wide{1} << 103) / sum);
  std::vector<std::uint64_t> weights;
  for (const std::uint64_t weight : raw) weights.push_back(static_cast<std::uint64_t>(Wide{weight} * reciprocal >> 51));
  const std::uint64_t all = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  const auto largest = std::max_element(raw.begin(), raw.end());
  weights[largest - raw.begin()] += Distribution::total - all;
  return Distribution::exact({}, weights);
}

inline Distribution naive_distribution(std::vector<float> z, const Sampling& sampling,
                                       const std::vector<Token>& history) {
  if (sampling.repeat_last_n != 0) {
    const int size = static_cast<int>(history.size());
    const int first = sampling.repeat_last_n < 0 ? 0 : std::max(0, size - sampling.repeat_last_n);
    std::map<Token, int> counts;
    for (int i = first; i < size; ++i) ++counts[history[i]];
    for (const auto& [token, count] : counts) {
      if (static_cast<std::size_t>(token) >= z.size()) continue;
      float& value = z[token];
      const float repeat = sampling.repeat_penalty > 0 ? sampling.repeat_penalty : 1;
      value = value < 0 ? value * repeat : value / repeat;
      value = value - sampling.presence_penalty;
      value = value - sampling.frequency_penalty * static_cast<float>(count);
    }
  }
  std::vector<Token> order(z.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](Token token) { return z[token]; };
  std::stable_sort(order.begin(), order.end(), [&](Token a, Token b) { return at(a) > at(b); });
  if (sampling.temperature <= 0) return Distribution::point(order[0]);

  const float best = at(order[0]);
  std::vector<std::uint64_t> raw;
  for (const Token token : order) {
    const float e = exponential((at(token) - best) / sampling.temperature);
    raw.push_back(static_cast<std::uint64_t>(std::floor(static_cast<double>(e) * 0x1p+40)));
  }
  if (sampling.top_k > 0 && static_cast<std::size_t>(sampling.top_k) < raw.size())
    std::fill(raw.begin() + sampling.top_k, raw.end(), 0);
  if (sampling.top_p > 0 && sampling.top_p < 1) {
    const std::uint64_t sum = std::accumulate(raw.begin(), raw.end(), std::uint64_t{0});
    const double limit = double{sampling.top_p} * static_cast<double>(sum);
    std::uint64_t before = 0;
    for (std::uint64_t& weight : raw) {
      const bool kept = static_cast<double>(before) < limit;
      before += weight;
      if (!kept) weight = 0;
    }
  }
  if (sampling.min_p > 0 && sampling.min_p <= 1) {
    const double min_weight = double{sampling.min_p} * static_cast<double>(raw[0]);
    for (std::uint64_t& weight : raw)
      if (static_cast<double>(weight) < min_weight) weight = 0;
  }
  std::vector<std::uint64_t> by_token(z.size());
  for (std::size_t i = 0; i < order.size(); ++i) by_token[order[i]] = raw[i];
  return naive_quantized(by_token);
}

}  // namespace draftproof
