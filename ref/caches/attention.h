// SPDX-License-Identifier: MIT
// Keys and values of one attention layer: everything (full attention) or the last `window` positions (sliding).
//
// Both are one ring of blocks of 16 positions; a full layer's ring is as long as the text may get and never wraps, a
// sliding layer's holds window - 1 old positions, the horizon of one transaction, and the rounding to whole blocks.
// Written ahead, a row overwrites only positions that no row from the settled end on can see. Invariants C1-C4 hold.
#pragma once

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
  /// (p / 16) % blocks, lane p % 16. Pointers stay valid for the life of the cache.
  const float* keys() const noexcept { return keys_.data(); }
  const float* values() const noexcept { return values_.data(); }
  int blocks() const noexcept { return blocks_; }

  /// The first position a row at `position` may see: max(0, position - window + 1), 0 for full attention.
  int first_visible(int position) const noexcept;

  int window() const noexcept { return window_; }

  void settle(int length) override;
  void add_to(Digest& digest, int length) const override;

 private:
  int kv_heads_;
  int head_dim_;
  int window_;
  int blocks_;
  std::vector<float> keys_;    // fresh memory is NaN, so that a read of an unwritten position shows
  std::vector<float> values_;
};

}  // namespace draftproof
