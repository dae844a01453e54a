// SPDX-License-Identifier: MIT
#include "oracle/exact/expected_row.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "kernels/math64.h"
#include "ref/acceptance/row_scan.h"

namespace draftproof {
namespace {

using Wide = unsigned __int128;
using Weights = std::map<Token, std::uint64_t>;

struct Candidate {
  Token token;
  float z;
  std::uint64_t share = 0;  // its raw weight
  double surprise = 0;      // -log of its probability, by its logit
};

/// Candidates, the best first. None of the steps but typical sampling takes another one than the first or the last.
class Candidates {
 public:
  explicit Candidates(std::span<const float> logits) {
    for (std::size_t token = 0; token < logits.size(); ++token) {
      if (std::isfinite(logits[token])) list_.push_back({static_cast<Token>(token), logits[token]});
    }
    std::stable_sort(list_.begin(), list_.end(), [](const auto& a, const auto& b) { return a.z > b.z; });
  }

  void apply(const Sampling& s, SamplerStep step) {
    weigh();
    const auto size = static_cast<double>(list_.size());
    switch (step) {
      case SamplerStep::penalties:
      case SamplerStep::dry:
      case SamplerStep::xtc: break;
      case SamplerStep::temperature: warm(s); break;
      case SamplerStep::top_n_sigma: {
        if (!(s.top_n_sigma > 0)) break;
        double sum = 0, squares = 0;
        for (const Candidate& c : list_) sum += double{c.z};
        for (const Candidate& c : list_) squares += (double{c.z} - sum / size) * (double{c.z} - sum / size);
        const double below = double{s.top_n_sigma} * std::sqrt(squares / size);
        const double best = double{list_[0].z};
        std::erase_if(list_, [&](const Candidate& c) { return double{c.z} < best - below; });
        break;
      }
      case SamplerStep::top_k:
        if (s.top_k > 0) list_.resize(std::min(list_.size(), static_cast<std::size_t>(s.top_k)), list_[0]);
        break;
      case SamplerStep::top_p:
        if (s.top_p > 0 && s.top_p < 1) {
          keep_while([&](double before) { return before < double{s.top_p} * static_cast<double>(sum_); });
        }
        break;
      case SamplerStep::min_p:
        if (!(s.min_p > 0 && s.min_p <= 1)) break;
        std::erase_if(list_,
                      [&](const Candidate& c) { return static_cast<double>(c.share) < double{s.min_p} * 0x1p+40; });
        break;
      case SamplerStep::typ_p: {
        if (!(s.typical_p > 0 && s.typical_p < 1)) break;
        const double expected = entropy();
        std::stable_sort(list_.begin(), list_.end(), [&](const Candidate& a, const Candidate& b) {
          return std::fabs(a.surprise - expected) < std::fabs(b.surprise - expected);
        });
        keep_while([&](double before) { return before <= double{s.typical_p} * static_cast<double>(sum_); });
        std::stable_sort(list_.begin(), list_.end(), [](const Candidate& a, const Candidate& b) {
          return a.z > b.z || (a.z == b.z && a.token < b.token);
        });
      }
    }
  }

  /// Drops the likely tokens but the last. Returns whether there were several.
  bool exclude(const Sampling& s) {
    weigh();
    if (!(s.xtc_probability > 0) || s.xtc_threshold > 0.5F) return false;
    const auto likely = std::ranges::count_if(list_, [&](const Candidate& c) {
      return static_cast<double>(c.share) >= double{s.xtc_threshold} * static_cast<double>(sum_);
    });
    if (likely < 2) return false;
    list_.erase(list_.begin(), list_.begin() + (likely - 1));
    return true;
  }

  /// Returns the weights of total 2^52; the rest of the division goes to the largest, the smallest token among equals.
  Weights weights() {
    weigh();
    const auto reciprocal = static_cast<std::uint64_t>((Wide{1} << 103) / sum_);
    Weights weights;
    std::uint64_t left = Distribution::total;
    Token largest = list_[0].token;
    for (const Candidate& c : list_) {
      left -= weights[c.token] = static_cast<std::uint64_t>(Wide{c.share} * reciprocal >> 51);
      if (c.share == list_[0].share) largest = std::min(largest, c.token);
    }
    weights[largest] += left;
    return weights;
  }

 private:
  void weigh() {
    std::vector<float> z, found;
    for (const Candidate& c : list_) z.push_back(c.z);
    const BlockedRow row(z);
    std::vector<std::uint32_t> blocks(row.blocks());
    std::iota(blocks.begin(), blocks.end(), 0U);
    found.resize(row.blocks() * token_block_size);
    find_raw_weights(row, blocks, z[0], temperature_, found.data());
    sum_ = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) sum_ += list_[i].share = static_cast<std::uint64_t>(found[i]);
    const double log_sum = log64(static_cast<double>(sum_) / 0x1p+40);
    for (Candidate& c : list_) {
      c.surprise = (double{z[0]} - double{c.z}) / double{temperature_} + log_sum;
      if (c.share == 0) c.surprise = std::numeric_limits<double>::infinity();
    }
  }

  double entropy() const {
    double entropy = 0;
    for (const Candidate& c : list_) {
      if (c.share > 0) entropy += static_cast<double>(c.share) / static_cast<double>(sum_) * c.surprise;
    }
    return entropy;
  }

  template <class Keeps>
  void keep_while(const Keeps& keeps) {
    std::uint64_t before = 0;
    std::size_t kept = 0;
    for (; kept < list_.size() && keeps(static_cast<double>(before)); ++kept) before += list_[kept].share;
    list_.resize(std::max<std::size_t>(1, kept), list_[0]);
  }

  void warm(const Sampling& s) {
    temperature_ = s.temperature;
    if (!(s.dynatemp_range > 0) || list_.size() < 2) return;
    const double low = std::max(0.0, double{s.temperature} - double{s.dynatemp_range});
    const double high = double{s.temperature} + double{s.dynatemp_range};
    temperature_ = 1;
    const double ratio = std::clamp(entropy() / log64(static_cast<double>(list_.size())), 0.0, 1.0);
    const double part = ratio == 0 ? (s.dynatemp_exponent == 0 ? 1 : 0) : power64(ratio, s.dynatemp_exponent);
    temperature_ = static_cast<float>(low + (high - low) * part);
    if (temperature_ > 0) return;
    list_.resize(1, list_[0]);
    temperature_ = 1;
  }

  std::vector<Candidate> list_;
  float temperature_ = 1;
  std::uint64_t sum_ = 0;
};

Weights weights_from(Candidates candidates, const Sampling& s, std::size_t place) {
  if (place == s.order.size()) return candidates.weights();
  candidates.apply(s, s.order[place]);
  if (s.order[place] != SamplerStep::xtc) return weights_from(std::move(candidates), s, place + 1);
  Candidates rest = candidates;
  Weights mixed = weights_from(candidates, s, place + 1);
  if (!rest.exclude(s)) return mixed;
  const Wide heads = static_cast<std::uint64_t>(std::min(1.0, double{s.xtc_probability}) * 0x1p+24 + 0.5);
  const Wide tails = (Wide{1} << 24) - heads;
  Weights of_heads = weights_from(std::move(rest), s, place + 1);
  for (const auto& [token, weight] : of_heads) mixed.emplace(token, 0);
  std::uint64_t left = Distribution::total;
  for (auto& [token, weight] : mixed) {
    left -= weight = static_cast<std::uint64_t>((weight * tails + of_heads[token] * heads) >> 24);
  }
  std::ranges::max_element(mixed, {}, [](const auto& one) { return one.second; })->second += left;
  return mixed;
}

}  // namespace

std::optional<Distribution> expected_row(std::span<const float> logits, const Sampling& sampling) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (!std::ranges::all_of(logits, [](float z) { return z < infinity; })) return std::nullopt;
  const auto best = std::ranges::max_element(logits);
  if (best == logits.end() || *best == -infinity) return std::nullopt;
  if (sampling.greedy()) return Distribution::point(static_cast<Token>(best - logits.begin()));
  std::vector<Token> tokens;
  std::vector<std::uint64_t> weights;
  for (const auto& [token, weight] : weights_from(Candidates(logits), sampling, 0)) {
    tokens.push_back(token);
    weights.push_back(weight);
  }
  return Distribution::exact(tokens, weights);
}

}  // namespace draftproof
