// SPDX-License-Identifier: MIT
#include "ref/acceptance/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The last `repeat_last_n` tokens of the history, sorted, so that equal ones lie together.
std::vector<Token> penalized_window(const History& history, int repeat_last_n) {
  const std::size_t size = history.committed.size() + history.drafted.size();
  const std::size_t kept = repeat_last_n < 0 ? size : std::min(size, static_cast<std::size_t>(repeat_last_n));
  const std::size_t of_drafted = std::min(kept, history.drafted.size());
  const auto old = history.committed.last(kept - of_drafted);
  const auto fresh = history.drafted.last(of_drafted);
  std::vector<Token> window(old.begin(), old.end());
  window.insert(window.end(), fresh.begin(), fresh.end());
  std::sort(window.begin(), window.end());
  return window;
}

void penalize(std::span<float> result, const Sampling& sampling, const History& history) {
  const std::vector<Token> window = penalized_window(history, sampling.repeat_last_n);
  const float repeat = sampling.repeats() ? sampling.repeat_penalty : 1.0f;
  for (auto run = window.begin(); run != window.end();) {
    const auto end = std::upper_bound(run, window.end(), *run);
    REQUIRE(*run >= 0, "tokens are not negative");
    if (static_cast<std::size_t>(*run) >= result.size()) break;
    float& z = result[static_cast<std::size_t>(*run)];
    z = (z < 0 ? z * repeat : z / repeat) - sampling.presence_penalty;
    z = z - sampling.frequency_penalty * static_cast<float>(end - run);
    run = end;
  }
}

[[noreturn]] void throw_unusable(std::span<const float> z) {
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (z[i] < infinity) continue;
    throw Error("the logit of token " + std::to_string(i) + " is " + (std::isnan(z[i]) ? "NaN" : "+infinity") +
                "; check the weights of the model and the penalties");
  }
  throw Error("not one of the " + std::to_string(z.size()) +
              " logits of a row is finite; check the weights of the model and the penalties");
}

/// How far below the best logit a token may have a share, in temperatures: exp(-28) < 2^-40.
constexpr float depth_of_shares = 28;

}  // namespace

/// Clears what `cut` cuts off, and forgets the blocks that have nothing left.
void Sampler::apply_truncation(const Truncation& cut, const BlockedRow& row) {
  std::erase_if(shares_.blocks, [&](std::uint32_t block) { return best_of_blocks_[block] < cut.threshold; });
  for (const Token token : cut.tied) shares_.values[token] = 0;
  shares_.sum = keep_shares(row, shares_.blocks, cut.threshold, 0, shares_.values.data());
}

void Sampler::read(std::span<const float> logits, const Sampling& sampling, const History& history,
                   Distribution& result) {
  std::span<const float> z = logits;
  if (sampling.penalizes()) {
    penalized_.assign(logits.begin(), logits.end());
    penalize(penalized_, sampling, history);
    z = penalized_;
  }
  const BlockedRow row(z);
  best_of_blocks_.resize(row.blocks());
  const bool usable = find_best_of_blocks(row, best_of_blocks_.data());
  const auto best_block = std::max_element(best_of_blocks_.begin(), best_of_blocks_.end());
  if (!usable || z.empty() || *best_block == -infinity) throw_unusable(z);
  const float best = *best_block;
  if (sampling.greedy()) {
    const auto first = z.begin() + (best_block - best_of_blocks_.begin()) * static_cast<std::ptrdiff_t>(token_block_size);
    result.become_point(static_cast<Token>(std::find(first, z.end(), best) - z.begin()));
    return;
  }
  if (!std::isfinite(sampling.temperature)) throw Error("the temperature is not finite; give a number of 0 or more");
  const bool cuts_tokens = sampling.top_k > 0 && static_cast<std::size_t>(sampling.top_k) < z.size();
  const bool cuts_shares = sampling.top_p > 0 && sampling.top_p < 1;
  const bool drops_shares = sampling.min_p > 0 && sampling.min_p <= 1;
  const float least = drops_shares ? sampling.min_p * 0x1p+40f : 0.0f;  // exact: a power of 2

  // k blocks have a token at least as good as the k-th best of their bests, so no worse token is among the best k.
  float depth = depth_of_shares * sampling.temperature;
  float threshold = -infinity;
  if (cuts_tokens && static_cast<std::size_t>(sampling.top_k) <= row.blocks()) {
    best_blocks_ = best_of_blocks_;
    const auto last = best_blocks_.begin() + (sampling.top_k - 1);
    std::nth_element(best_blocks_.begin(), last, best_blocks_.end(), std::greater<>());
    threshold = *last;
    depth = std::min(depth, best - threshold);
  }

  // Shares of the blocks that have any that counts.
  const BlockedRow bests(best_of_blocks_);
  shares_of_best_.values.resize(bests.blocks() * token_block_size);
  shares_of_best_.blocks.resize(bests.blocks());
  std::iota(shares_of_best_.blocks.begin(), shares_of_best_.blocks.end(), 0u);
  find_weights_2_40(bests, shares_of_best_.blocks, best, sampling.temperature, shares_of_best_.values.data());
  const float least_of_best = std::max(1.0f, cuts_shares ? 0.0f : least);
  shares_.blocks.clear();
  for (std::uint32_t block = 0; block < row.blocks(); ++block) {
    if (best_of_blocks_[block] >= threshold && shares_of_best_.values[block] >= least_of_best)
      shares_.blocks.push_back(block);
  }
  shares_.values.resize(row.blocks() * token_block_size);
  shares_.sum = find_weights_2_40(row, shares_.blocks, best, sampling.temperature, shares_.values.data());

  if (cuts_tokens) {
    const auto count = static_cast<std::uint64_t>(sampling.top_k);
    const auto stays = [count](std::uint64_t before) { return before < count; };
    apply_truncation(cuts_.find(row, shares_.blocks, shares_.values.data(), best, depth, CountBy::token, stays),
               row);
  }
  if (cuts_shares) {
    const double limit = static_cast<double>(sampling.top_p) * static_cast<double>(shares_.sum);
    const auto stays = [limit](std::uint64_t before) { return static_cast<double>(before) < limit; };
    apply_truncation(cuts_.find(row, shares_.blocks, shares_.values.data(), best, depth, CountBy::share, stays),
               row);
  }
  if (drops_shares) shares_.sum = keep_shares(row, shares_.blocks, -infinity, least, shares_.values.data());
  result.become_quantized(shares_);
}

Distribution Sampler::blank() {
  if (blanks_.empty()) return {};
  Distribution last = std::move(blanks_.back());
  blanks_.pop_back();
  return last;
}

void Sampler::give_back(std::vector<Distribution>& read) {
  std::move(read.begin(), read.end(), std::back_inserter(blanks_));
  read.clear();
}

Distribution distribution_of(std::span<const float> logits, const Sampling& sampling, const History& history) {
  Distribution result;
  Sampler().read(logits, sampling, history, result);
  return result;
}

}  // namespace draftproof
