// SPDX-License-Identifier: MIT
#include "ref/acceptance/truncation.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace draftproof {
namespace {

/// Maps floats to integers of the same order; -0 and +0 map to the same integer.
std::uint32_t ordered(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value + 0.0f);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

}  // namespace

/// Returns the first bucket that is not kept whole and adds the counts of all buckets before it to `before`. Returns
/// `buckets` when every bucket is kept whole.
std::size_t TruncationFinder::find_boundary_bucket(std::uint64_t& before,
                                                   const std::function<bool(std::uint64_t)>& is_kept) const {
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    if (counts_[bucket] == 0) continue;
    if (!is_kept(before + counts_[bucket])) return bucket;
    before += counts_[bucket];
  }
  return buckets;
}

Truncation TruncationFinder::find(const BlockedRow& row, TokenBlocks blocks, const float* raw_weights, float best,
                                  float depth, CountBy count_by, const std::function<bool(std::uint64_t)>& is_kept) {
  // Capped at the largest float: 0 * infinity would be NaN, 0 * the largest float is 0.
  const float per_logit = std::min(static_cast<float>(buckets) / depth, std::numeric_limits<float>::max());
  const BucketScale scale = {best, per_logit, static_cast<std::int32_t>(buckets) - 1};
  counts_.fill(0);
  add_to_buckets(row, blocks, scale, count_by, raw_weights, counts_);
  std::uint64_t before = 0;
  std::size_t bucket = find_boundary_bucket(before, is_kept);
  if (bucket == buckets) return {-std::numeric_limits<float>::infinity(), {}};

  tokens_.resize(std::max(tokens_.size(), blocks.size() * token_block_size));
  const std::size_t count =
      find_in_bucket(row, blocks, scale, static_cast<std::int32_t>(bucket), raw_weights, tokens_.data());
  const auto logit = [&](Token token) {
    const auto index = static_cast<std::size_t>(token);
    return row.block(index / token_block_size)[index % token_block_size];
  };
  candidates_.clear();
  for (const Token token : std::span(tokens_).first(count)) {
    const auto counts = count_by == CountBy::raw_weight ? static_cast<std::uint64_t>(raw_weights[token]) : 1;
    candidates_.push_back({ordered(best) - ordered(logit(token)), token, counts});
  }

  // Narrows the candidates by the bits of their logits until all of them have one logit. Each pass resolves 11 of 32
  // bits, so there are at most three.
  for (;;) {
    const auto [first, last] = std::minmax_element(candidates_.begin(), candidates_.end(),
                                                   [](const auto& a, const auto& b) { return a.depth < b.depth; });
    const std::uint32_t min = first->depth;
    const std::uint32_t range = last->depth - min;
    if (range == 0) break;
    const int shift = std::max(0, static_cast<int>(std::bit_width(range)) - bits_of_bucket);
    counts_.fill(0);
    for (const Candidate& candidate : candidates_) counts_[(candidate.depth - min) >> shift] += candidate.count;
    bucket = find_boundary_bucket(before, is_kept);
    std::erase_if(candidates_, [&](const Candidate& c) { return (c.depth - min) >> shift != bucket; });
  }

  // Equal logits have equal raw weights. Binary search for `kept`: the largest number of candidates, in order of token,
  // whose last one is kept.
  const std::uint64_t each = candidates_.front().count;
  std::size_t kept = 0;
  for (std::size_t step = std::bit_floor(candidates_.size()); step > 0; step /= 2) {
    const std::size_t attempt = kept + step;
    if (attempt <= candidates_.size() && is_kept(before + (attempt - 1) * each)) kept = attempt;
  }
  const float threshold = logit(candidates_.front().token);
  const std::size_t removed = candidates_.size() - kept;
  for (std::size_t i = 0; i < removed; ++i) tokens_[i] = candidates_[kept + i].token;
  return {threshold, std::span(tokens_).first(removed)};
}

}  // namespace draftproof
