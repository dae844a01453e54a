// SPDX-License-Identifier: MIT
#include "ref/caches/attention.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

#include "ref/base/require.h"

namespace draftproof {

AttentionCache::AttentionCache(int kv_heads, int head_dim, int window, int capacity, int horizon_max)
    : kv_heads_(kv_heads), head_dim_(head_dim), window_(window), capacity_(capacity), horizon_max_(horizon_max) {
  REQUIRE(kv_heads >= 1 && head_dim >= 1, "a layer has heads and dimensions");
  REQUIRE(window >= 0, "a window is a number of positions, or `everything`");
  REQUIRE(capacity >= 1 && horizon_max >= 1, "a cache has room for at least one row");
  // In 64 bits: a window may be as large as the largest int.
  const std::int64_t sliding = std::int64_t{window} - 1 + std::min(horizon_max, capacity);
  const std::int64_t places = window == everything ? capacity : std::min<std::int64_t>(capacity, sliding);
  blocks_ = static_cast<int>((places + block - 1) / block);

  Lanes fresh;
  std::fill(std::begin(fresh.at), std::end(fresh.at), std::numeric_limits<float>::quiet_NaN());
  const std::size_t lanes = std::size_t(kv_heads) * blocks_ * head_dim;
  keys_.assign(lanes, fresh);
  values_.assign(lanes, fresh);
}

std::size_t AttentionCache::block_of(int head, int position) const noexcept {
  return std::size_t(head) * blocks_ + (position / block) % blocks_;
}

void AttentionCache::write(int position, const float* keys, const float* values) {
  claim(position);
  REQUIRE(position < capacity_, "the text stays within the capacity of the layer");
  REQUIRE(position - settled() < horizon_max_, "no window is wider than the layer was made for");
  const int lane = position % block;
  for (int head = 0; head < kv_heads_; ++head) {
    const std::size_t first = block_of(head, position) * head_dim_;
    for (int dim = 0; dim < head_dim_; ++dim) keys_[first + dim].at[lane] = keys[head * head_dim_ + dim];
    std::copy_n(values + head * head_dim_, head_dim_, values_.data()->at + first * block + lane * head_dim_);
  }
}

int AttentionCache::first_visible(int position) const noexcept {
  return window_ == everything ? 0 : std::max(0, position - window_ + 1);
}

void AttentionCache::add_to(Digest& digest, int length) const {
  std::vector<float> row(2 * std::size_t(head_dim_));
  for (int position = first_visible(length); position < length; ++position) {
    const int lane = position % block;
    for (int head = 0; head < kv_heads_; ++head) {
      const std::size_t first = block_of(head, position) * head_dim_;
      for (int dim = 0; dim < head_dim_; ++dim) row[dim] = keys_[first + dim].at[lane];
      std::copy_n(values() + first * block + lane * head_dim_, head_dim_, row.data() + head_dim_);
      digest.add(std::span<const float>(row));
    }
  }
}

}  // namespace draftproof
