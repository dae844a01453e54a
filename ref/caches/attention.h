// SPDX-License-Identifier: MIT
// Keys and values of one attention layer: everything (full attention) or the last `window` positions (sliding).
//
// Both are one ring of blocks of 16 positions; a full layer's ring is as long as the text may get and never wraps, a
// sliding layer's holds window - 1 old positions, the horizon of one transaction, and the rounding to whole blocks.
// With n settled positions, rows n ... n + horizon - 1 may be written and the oldest position that any of them, or any
// later row, can see is n - window + 1. These window - 1 + horizon positions are no more than the ring has places, so
// no two of them share one: a row written ahead overwrites only what nothing from the settled end on can see, and
// dropping it costs nothing. A block may hold rows of different laps of the ring; readers use only visible lanes.
#pragma once

#include <cstddef>
#include <vector>

#include "ref/caches/cache.h"

namespace draftproof {

class AttentionCache final : public LayerCache {
 public:
  static constexpr int block = 16;       // positions per block
  static constexpr int everything = 0;   // window of a full-attention layer

  AttentionCache(int kv_heads, int head_dim, int window, int capacity, int horizon_max);

  /// Stores one position. keys and values: [kv_heads][head_dim]. Positions are written in ascending order.
  void write(int position, const float* keys, const float* values);

  /// keys [kv_heads][blocks][head_dim][16], values [kv_heads][blocks][16][head_dim]; position p lies in block
  /// (p / 16) % blocks, lane p % 16. Pointers are 64-byte aligned and stay valid for the life of the cache.
  const float* keys() const noexcept { return keys_.data()->at; }
  const float* values() const noexcept { return values_.data()->at; }
  int blocks() const noexcept { return blocks_; }

  /// The first position a row at `position` may see: max(0, position - window + 1), 0 for full attention.
  int first_visible(int position) const noexcept;

  int window() const noexcept { return window_; }

  void add_to(Digest& digest, int length) const override;

 private:
  struct alignas(block * sizeof(float)) Lanes {
    float at[block];
  };
  std::size_t block_of(int head, int position) const noexcept;  // in blocks, counted over all heads

  int kv_heads_;
  int head_dim_;
  int window_;
  int capacity_;
  int horizon_max_;
  int blocks_;
  std::vector<Lanes> keys_;  // fresh memory is NaN, so that a read of an unwritten position shows
  std::vector<Lanes> values_;
};

}  // namespace draftproof
