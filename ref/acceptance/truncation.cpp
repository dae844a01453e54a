// SPDX-License-Identifier: MIT
#include "ref/acceptance/truncation.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace draftproof {
namespace {

/// The order of floats as an order of integers; both zeros are one.
std::uint32_t ordered(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value + 0.0f);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

}  // namespace

/// The bucket in which the cut lies; `before` grows by all buckets before it. `buckets` when everything stays.
std::size_t TruncationFinder::bucket_of_cut(std::uint64_t& before, const std::function<bool(std::uint64_t)>& stays) const {
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    if (taken_[bucket] == 0) continue;
    if (!stays(before + taken_[bucket])) return bucket;
    before += taken_[bucket];
  }
  return buckets;
}

Truncation TruncationFinder::find(const BlockedRow& row, TokenBlocks blocks, const float* shares, float best, float depth, CountBy amount,
                    const std::function<bool(std::uint64_t)>& stays) {
  // The largest float instead of a quotient that is too large: 0 times it is 0.
  const float scale = std::min(static_cast<float>(buckets) / depth, std::numeric_limits<float>::max());
  const BucketScale ruler = {best, scale, static_cast<std::int32_t>(buckets) - 1};
  taken_.fill(0);
  add_to_buckets(row, blocks, ruler, amount, shares, taken_.data());
  std::uint64_t before = 0;
  std::size_t bucket = bucket_of_cut(before, stays);
  if (bucket == buckets) return {-std::numeric_limits<float>::infinity(), {}};

  tokens_.resize(std::max(tokens_.size(), blocks.size() * token_block_size));
  const std::size_t count =
      find_in_bucket(row, blocks, ruler, static_cast<std::int32_t>(bucket), shares, tokens_.data());
  const auto logit = [&](Token token) {
    const auto index = static_cast<std::size_t>(token);
    return row.block(index / token_block_size)[index % token_block_size];
  };
  candidates_.clear();
  for (const Token token : std::span(tokens_).first(count)) {
    const auto share = static_cast<std::uint64_t>(shares[token]);
    candidates_.push_back({ordered(best) - ordered(logit(token)), token, amount == CountBy::share ? share : 1});
  }

  // Again, by the bits of the floats, until all candidates are equal: 11 bits a time, so at most three times.
  for (;;) {
    const auto [first, last] = std::minmax_element(candidates_.begin(), candidates_.end(),
                                                   [](const auto& a, const auto& b) { return a.depth < b.depth; });
    const std::uint32_t least = first->depth;
    const std::uint32_t range = last->depth - least;
    if (range == 0) break;
    const int shift = std::max(0, static_cast<int>(std::bit_width(range)) - bits_of_bucket);
    taken_.fill(0);
    for (const Candidate& candidate : candidates_) taken_[(candidate.depth - least) >> shift] += candidate.amount;
    bucket = bucket_of_cut(before, stays);
    std::erase_if(candidates_, [&](const Candidate& c) { return (c.depth - least) >> shift != bucket; });
  }

  // Equal logits have equal shares: the first `staying` of them stay, the largest number whose last one may.
  const std::uint64_t each = candidates_.front().amount;
  std::size_t staying = 0;
  for (std::size_t step = std::bit_floor(candidates_.size()); step > 0; step /= 2) {
    const std::size_t count = staying + step;
    if (count <= candidates_.size() && stays(before + (count - 1) * each)) staying = count;
  }
  const float threshold = logit(candidates_.front().token);
  const std::size_t falling = candidates_.size() - staying;
  for (std::size_t i = 0; i < falling; ++i) tokens_[i] = candidates_[staying + i].token;
  return {threshold, std::span(tokens_).first(falling)};
}

}  // namespace draftproof
