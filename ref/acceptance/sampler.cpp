// SPDX-License-Identifier: MIT
#include "ref/acceptance/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

void add_biases(std::span<float> result, const std::vector<LogitBias>& biases) {
  for (const auto& [token, bias] : biases) {
    REQUIRE(token >= 0, "tokens are not negative");
    if (static_cast<std::size_t>(token) < result.size()) result[token] += bias;
  }
}

void mask(std::span<float> result, const TokenSet& allowed) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    const bool usable = result[i] < infinity;  // what is not is an error wherever it is
    if (usable && !allowed.has(static_cast<Token>(i))) result[i] = -infinity;
  }
}

/// A token whose logit is more than this many temperatures below the best one has raw weight 0: exp(-28) < 2^-40.
constexpr float max_depth = 28;

}  // namespace

/// Zeroes the raw weights of the removed tokens and drops token blocks that have none left.
void Sampler::apply_truncation(const Truncation& truncation, const BlockedRow& row) {
  std::erase_if(raw_.blocks, [&](std::uint32_t block) { return best_of_blocks_[block] < truncation.threshold; });
  for (const Token token : truncation.tied) raw_.values[token] = 0;
  raw_.sum = truncate_raw_weights(row, raw_.blocks, truncation.threshold, 0, raw_.values.data());
}

void Sampler::read(std::span<const float> logits, const Sampling& sampling, const History& history,
                   Distribution& result, const TokenSet* allowed) {
  std::span<const float> z = logits;
  if (!sampling.logit_bias.empty() || allowed != nullptr || sampling.penalizes() || sampling.dries()) {
    changed_.assign(logits.begin(), logits.end());
    add_biases(changed_, sampling.logit_bias);
    if (allowed != nullptr) mask(changed_, *allowed);
    z = changed_;
  }
  if (!sampling.greedy() && !std::isfinite(sampling.temperature)) {
    throw Error("the temperature is not finite; give a number of 0 or more");
  }
  if (!sampling.greedy() && !scan_suffices(sampling)) {
    return ranked_sampler_.read(z, sampling, history, result, allowed);
  }
  for (const SamplerStep step : sampling.order) {
    if (step == SamplerStep::penalties && sampling.penalizes()) penalize(changed_, sampling, history);
    if (step == SamplerStep::dry && sampling.dries()) penalize_repetition(changed_, sampling, history);
  }
  const BlockedRow row(z);
  best_of_blocks_.resize(row.blocks());
  const bool usable = find_best_of_blocks(row, best_of_blocks_.data());
  const auto best_block = std::max_element(best_of_blocks_.begin(), best_of_blocks_.end());
  if (!usable || z.empty() || *best_block == -infinity) throw_unusable(z, allowed);
  const float best = *best_block;
  if (sampling.greedy()) {
    const std::ptrdiff_t index = best_block - best_of_blocks_.begin();
    const auto first = z.begin() + index * static_cast<std::ptrdiff_t>(token_block_size);
    result.become_point(static_cast<Token>(std::find(first, z.end(), best) - z.begin()));
    return;
  }
  const bool uses_top_k = sampling.top_k > 0 && static_cast<std::size_t>(sampling.top_k) < z.size();
  const bool uses_top_p = sampling.applies(SamplerStep::top_p);
  const bool uses_min_p = sampling.applies(SamplerStep::min_p);
  const float min_weight = uses_min_p ? sampling.min_p * 0x1p+40f : 0.0f;  // exact: a power of 2

  // k token blocks have a best logit of at least the k-th largest one, so at least k tokens do, and no token with a
  // smaller logit is among the best k.
  float depth = max_depth * sampling.temperature;
  float threshold = -infinity;
  if (uses_top_k && static_cast<std::size_t>(sampling.top_k) <= row.blocks()) {
    best_blocks_ = best_of_blocks_;
    const auto last = best_blocks_.begin() + (sampling.top_k - 1);
    std::nth_element(best_blocks_.begin(), last, best_blocks_.end(), std::greater<>());
    threshold = *last;
    depth = std::min(depth, best - threshold);
  }

  // Raw weights are computed only for token blocks whose best one has a raw weight that matters.
  const BlockedRow bests(best_of_blocks_);
  raw_of_best_.values.resize(bests.blocks() * token_block_size);
  raw_of_best_.blocks.resize(bests.blocks());
  std::iota(raw_of_best_.blocks.begin(), raw_of_best_.blocks.end(), 0u);
  find_raw_weights(bests, raw_of_best_.blocks, best, sampling.temperature, raw_of_best_.values.data());
  const float min_of_best = std::max(1.0f, uses_top_p ? 0.0f : min_weight);
  raw_.blocks.clear();
  for (std::uint32_t block = 0; block < row.blocks(); ++block) {
    if (best_of_blocks_[block] >= threshold && raw_of_best_.values[block] >= min_of_best) raw_.blocks.push_back(block);
  }
  raw_.values.resize(row.blocks() * token_block_size);
  raw_.sum = find_raw_weights(row, raw_.blocks, best, sampling.temperature, raw_.values.data());

  if (uses_top_k) {
    const auto count = static_cast<std::uint64_t>(sampling.top_k);
    const auto is_kept = [count](std::uint64_t before) { return before < count; };
    apply_truncation(
        truncation_finder_.find(row, raw_.blocks, raw_.values.data(), best, depth, CountBy::token, is_kept), row);
  }
  if (uses_top_p) {
    const double limit = static_cast<double>(sampling.top_p) * static_cast<double>(raw_.sum);
    const auto is_kept = [limit](std::uint64_t before) { return static_cast<double>(before) < limit; };
    apply_truncation(
        truncation_finder_.find(row, raw_.blocks, raw_.values.data(), best, depth, CountBy::raw_weight, is_kept), row);
  }
  if (uses_min_p) raw_.sum = truncate_raw_weights(row, raw_.blocks, -infinity, min_weight, raw_.values.data());
  result.become_quantized(raw_);
}

Distribution Sampler::blank() {
  if (blanks_.empty()) return {};
  Distribution last = std::move(blanks_.back());
  blanks_.pop_back();
  return last;
}

void Sampler::give_back(std::vector<Distribution>& read) {
  // Most of one token were named and not drawn, so nobody took a blank for them: kept, they would pile up.
  std::copy_if(std::make_move_iterator(read.begin()), std::make_move_iterator(read.end()), std::back_inserter(blanks_),
               [](const Distribution& one) { return !one.is_point(); });
  read.clear();
}

Distribution compute_distribution(std::span<const float> logits, const Sampling& sampling, const History& history) {
  return compute_distribution(logits, sampling, history, nullptr);
}

Distribution compute_distribution(std::span<const float> logits, const Sampling& sampling, const History& history,
                                  const TokenSet* allowed) {
  Distribution result;
  Sampler().read(logits, sampling, history, result, allowed);
  return result;
}

}  // namespace draftproof
