// SPDX-License-Identifier: MIT
#include "ref/acceptance/cut.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <ranges>

namespace draftproof {
namespace {

/// The order of floats as an order of integers; both zeros are one.
std::uint32_t ordered(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value + 0.0f);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

/// The bucket of a logit, worse ones in later buckets: a difference, a product with a positive number and a floor never
/// put two numbers the wrong way round. A quotient too large for a float is the largest, so that 0 times it is 0.
struct Ruler {
  float best;
  float scale;
  std::size_t last;

  Ruler(float best_, float reach, std::size_t buckets)
      : best(best_), scale(std::min(static_cast<float>(buckets) / reach, std::numeric_limits<float>::max())),
        last(buckets - 1) {}

  std::size_t operator()(float z) const {
    const float end = static_cast<float>(last);
    const float at = (best - z) * scale;
    return static_cast<std::size_t>(static_cast<std::int32_t>(at < end ? at : end));
  }
};

}  // namespace

/// The bucket in which the cut lies; `before` grows by all buckets before it. `buckets` when everything stays.
std::size_t CutFinder::bucket_of_cut(std::uint64_t& before, const std::function<bool(std::uint64_t)>& stays) const {
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    if (taken_[bucket] == 0) continue;
    if (!stays(before + taken_[bucket])) return bucket;
    before += taken_[bucket];
  }
  return buckets;
}

Cut CutFinder::find(const BlockedRow& row, Blocks blocks, const float* shares, float best, float reach, Taken taken,
                    const std::function<bool(std::uint64_t)>& stays) {
  const auto amount = [&](float share) {
    return taken == Taken::shares ? static_cast<std::uint64_t>(static_cast<std::int64_t>(share)) : share > 0;
  };
  const Ruler ruler(best, reach, buckets);
  taken_.fill(0);
  for (const std::uint32_t b : blocks) {
    const float* z = row.block(b);
    const float* share = shares + std::size_t{b} * block_size;
    for (std::size_t i = 0; i < block_size; ++i) taken_[ruler(z[i])] += amount(share[i]);
  }
  std::uint64_t before = 0;
  std::size_t bucket = bucket_of_cut(before, stays);
  if (bucket == buckets) return {-std::numeric_limits<float>::infinity(), {}};

  candidates_.clear();
  for (const std::uint32_t b : blocks) {
    const float* z = row.block(b);
    const float* share = shares + std::size_t{b} * block_size;
    for (std::size_t i = 0; i < block_size; ++i) {
      if (ruler(z[i]) != bucket || share[i] == 0) continue;
      const auto token = static_cast<std::uint32_t>(std::size_t{b} * block_size + i);
      candidates_.push_back({ordered(best) - ordered(z[i]), token, amount(share[i])});
    }
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
  const auto counts = std::views::iota(std::size_t{1}, candidates_.size() + 1);
  const auto end = std::ranges::partition_point(
      counts, [&](std::size_t count) { return stays(before + (count - 1) * each); });
  const auto staying = static_cast<std::size_t>(end - counts.begin());
  tied_.clear();
  for (std::size_t i = staying; i < candidates_.size(); ++i) tied_.push_back(candidates_[i].token);
  const std::size_t token = candidates_.front().token;
  return {row.block(token / block_size)[token % block_size], tied_};
}

}  // namespace draftproof
