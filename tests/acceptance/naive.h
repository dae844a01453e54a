// SPDX-License-Identifier: MIT
// A naive implementation, step by step as documented, from a row of logits to integer weights: with a full sort and
// wide integers. Sampler and Distribution are compared with it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "kernels/exp.h"
#include "kernels/math64.h"
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

/// Subtracts what DRY takes: for every token, for every place where it stands in the text, counts how many tokens
/// before that place are also the last ones.
inline void naive_dry(std::vector<float>& z, const Sampling& s, const std::vector<Token>& history) {
  std::vector<Token> text = history;
  if (s.dry_penalty_last_n >= 0 && std::ssize(text) > s.dry_penalty_last_n) {
    text.erase(text.begin(), text.end() - s.dry_penalty_last_n);
  }
  const auto breaks = [&](Token token) { return std::ranges::count(s.dry_breakers, token) > 0; };
  const int size = static_cast<int>(text.size());
  int unbroken = 0;
  while (unbroken < size && !breaks(text[size - 1 - unbroken])) ++unbroken;
  const int allowed = std::max(0, s.dry_allowed_length);
  if (size <= allowed || unbroken < allowed) return;
  for (Token token = 0; token < std::ssize(z); ++token) {
    int longest = -1;
    for (int place = 1; place < size; ++place) {
      if (text[place] != token) continue;
      int length = 0;
      while (length < std::min(place, unbroken) && text[place - 1 - length] == text[size - 1 - length]) ++length;
      longest = std::max(longest, length);
    }
    if (longest < allowed || breaks(token)) continue;
    constexpr double max = std::numeric_limits<float>::max();
    double power = 1;
    for (int i = allowed; i < longest && power < max; ++i) power *= s.dry_base;
    const double taken = double{s.dry_multiplier} * std::min(power, max);
    z[token] = z[token] - static_cast<float>(std::clamp(taken, -max, max));
  }
}

inline void naive_penalties(std::vector<float>& z, const Sampling& sampling, const std::vector<Token>& history) {
  if (sampling.repeat_last_n == 0) return;
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

/// The tokens that are left, best first, with their raw weights.
struct NaiveRow {
  std::vector<float> z;
  std::vector<Token> left;
  float temperature = 1;

  void order() {
    std::ranges::sort(left);
    std::ranges::stable_sort(left, [&](Token a, Token b) { return z[a] > z[b]; });
  }
  std::vector<std::uint64_t> raw() const {
    std::vector<std::uint64_t> raw;
    for (const Token token : left) {
      const float e = exponential((z[token] - z[left[0]]) / temperature);
      raw.push_back(static_cast<std::uint64_t>(std::floor(static_cast<double>(e) * 0x1p+40)));
    }
    return raw;
  }
  std::vector<double> surprises() const {
    const std::vector<std::uint64_t> weights = raw();
    const auto sum = static_cast<double>(std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}));
    std::vector<double> surprises;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double below = (double{z[left[0]]} - double{z[left[i]]}) / double{temperature};
      surprises.push_back(weights[i] == 0 ? std::numeric_limits<double>::infinity() : below + log64(sum / 0x1p+40));
    }
    return surprises;
  }
  double entropy() const {
    const std::vector<std::uint64_t> weights = raw();
    const std::vector<double> surprises = this->surprises();
    const auto sum = static_cast<double>(std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}));
    double entropy = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] > 0) entropy += static_cast<double>(weights[i]) / sum * surprises[i];
    }
    return entropy;
  }
};

inline std::vector<std::uint64_t> naive_weights(NaiveRow row, const Sampling& s, const std::vector<Token>& history,
                                                std::size_t place) {
  row.order();
  std::vector<std::uint64_t> raw = row.raw();
  const std::uint64_t sum = std::accumulate(raw.begin(), raw.end(), std::uint64_t{0});
  const auto first = [&](std::size_t count) { row.left.resize(std::max<std::size_t>(1, std::min(count, raw.size()))); };
  if (place == sampler_steps) {
    std::vector<std::uint64_t> by_token(row.z.size());
    for (std::size_t i = 0; i < raw.size(); ++i) by_token[row.left[i]] = raw[i];
    const Distribution p = naive_quantized(by_token);
    for (Token token = 0; token < std::ssize(row.z); ++token) by_token[token] = p.weight(token);
    return by_token;
  }
  const SamplerStep step = s.order[place];
  if (step == SamplerStep::penalties || step == SamplerStep::dry) {
    if (row.temperature != 1 && (step == SamplerStep::dry ? s.dries() : s.penalizes())) {
      for (float& z : row.z) z = z / row.temperature;
      row.temperature = 1;
    }
    if (step == SamplerStep::penalties) naive_penalties(row.z, s, history);
    else if (s.dries()) naive_dry(row.z, s, history);
    std::erase_if(row.left, [&](Token token) { return !std::isfinite(row.z[token]); });
  }
  if (step == SamplerStep::temperature) {
    const double entropy = row.entropy();
    row.temperature = s.temperature;
    if (s.dynatemp_range > 0 && raw.size() > 1) {
      const double ratio = std::min(1.0, std::max(0.0, entropy / log64(static_cast<double>(raw.size()))));
      const double low = std::max(0.0, double{s.temperature} - double{s.dynatemp_range});
      const double high = double{s.temperature} + double{s.dynatemp_range};
      const double part = ratio > 0 ? power64(ratio, s.dynatemp_exponent) : s.dynatemp_exponent == 0 ? 1 : 0;
      row.temperature = static_cast<float>(low + (high - low) * part);
      if (row.temperature == 0) {
        first(1);
        row.temperature = 1;
      }
    }
  }
  if (step == SamplerStep::top_k && s.top_k > 0) first(static_cast<std::size_t>(s.top_k));
  if (step == SamplerStep::top_p && s.top_p > 0 && s.top_p < 1) {
    std::size_t kept = 0;
    for (std::uint64_t before = 0;
         kept < raw.size() && static_cast<double>(before) < double{s.top_p} * static_cast<double>(sum);)
      before += raw[kept++];
    first(kept);
  }
  if (step == SamplerStep::min_p && s.min_p > 0 && s.min_p <= 1) {
    first(static_cast<std::size_t>(std::ranges::count_if(
        raw, [&](std::uint64_t weight) { return static_cast<double>(weight) >= double{s.min_p} * 0x1p+40; })));
  }
  if (step == SamplerStep::top_n_sigma && s.top_n_sigma > 0) {
    double mean = 0, squares = 0;
    for (const Token token : row.left) mean += double{row.z[token]};
    mean /= static_cast<double>(raw.size());
    for (const Token token : row.left) squares += (double{row.z[token]} - mean) * (double{row.z[token]} - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(raw.size()));
    const double min = double{row.z[row.left[0]]} - double{s.top_n_sigma} * deviation;
    std::erase_if(row.left, [&](Token token) { return double{row.z[token]} < min; });
  }
  if (step == SamplerStep::typ_p && s.typical_p > 0 && s.typical_p < 1) {
    const double expected = row.entropy();
    std::vector<std::size_t> places(raw.size());
    std::iota(places.begin(), places.end(), 0);
    const std::vector<double> surprises = row.surprises();
    const auto apart = [&](std::size_t i) { return std::fabs(surprises[i] - expected); };
    std::ranges::stable_sort(places, [&](std::size_t a, std::size_t b) { return apart(a) < apart(b); });
    std::vector<Token> kept;
    std::uint64_t before = 0;
    for (const std::size_t i : places) {
      if (static_cast<double>(before) <= double{s.typical_p} * static_cast<double>(sum)) kept.push_back(row.left[i]);
      before += raw[i];
    }
    row.left = kept;
  }
  if (step == SamplerStep::xtc && s.xtc_probability > 0 && s.xtc_threshold <= 0.5f) {
    std::size_t likely = 0;
    while (likely < raw.size() &&
           static_cast<double>(raw[likely]) >= double{s.xtc_threshold} * static_cast<double>(sum))
      ++likely;
    if (likely > 1) {
      NaiveRow rest = row;
      rest.left.erase(rest.left.begin(), rest.left.begin() + static_cast<std::ptrdiff_t>(likely - 1));
      const std::vector<std::uint64_t> tails = naive_weights(row, s, history, place + 1);
      std::vector<std::uint64_t> mixed = naive_weights(rest, s, history, place + 1);  // heads
      const auto heads =
          static_cast<unsigned __int128>(std::lround(double{std::min(1.0f, s.xtc_probability)} * 0x1p+24));
      std::uint64_t left = Distribution::total;
      for (std::size_t token = 0; token < mixed.size(); ++token) {
        mixed[token] =
            static_cast<std::uint64_t>((mixed[token] * heads + tails[token] * ((1 << 24) - heads)) / (1 << 24));
        left -= mixed[token];
      }
      *std::ranges::max_element(mixed) += left;
      return mixed;
    }
  }
  return naive_weights(row, s, history, place + 1);
}

inline Distribution naive_distribution(std::vector<float> z, const Sampling& sampling,
                                       const std::vector<Token>& history) {
  NaiveRow row{z, {}};
  for (Token token = 0; token < std::ssize(z); ++token) {
    if (std::isfinite(z[token])) row.left.push_back(token);
  }
  if (sampling.temperature > 0) return Distribution::exact({}, naive_weights(row, sampling, history, 0));
  for (const SamplerStep step : sampling.order) {
    if (step == SamplerStep::penalties) naive_penalties(row.z, sampling, history);
    if (step == SamplerStep::dry && sampling.dries()) naive_dry(row.z, sampling, history);
  }
  row.order();
  return Distribution::point(row.left[0]);
}

}  // namespace draftproof
