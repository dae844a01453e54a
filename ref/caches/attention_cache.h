// SPDX-License-Identifier: MIT
// Keys and values of one attention layer: everything (full attention) or the last `window` positions (sliding).
//
// Both are one ring of blocks of 16 positions (kernels/key_values.h); a full layer's ring is as long as the text
// may get and never wraps, a sliding layer's holds window - 1 old positions, the horizon of one transaction, and
// the rounding to whole blocks. With n settled positions, rows n ... n + horizon - 1 may be written and the oldest
// position that any of them, or any later row, can see is n - window + 1. These window - 1 + horizon positions are
// no more than the ring has places, so no two of them share one: a row written ahead overwrites only what nothing
// from the settled end on can see, and dropping it costs nothing. A block may hold rows of different laps of the
// ring; readers use only visible lanes.
//
// What a position holds depends on the row stored there and on the format, so a warm cache equals a cold one in each.
#pragma once

#include <cstddef>

#include "kernels/aligned.h"
#include "kernels/kernels.h"
#include "kernels/key_values.h"
#include "ref/caches/cache.h"

namespace draftproof {

class AttentionCache final : public LayerCache {
 public:
  static constexpr int block = 16;       // positions per block
  static constexpr int everything = 0;   // window of a full-attention layer

  AttentionCache(int kv_heads, int head_dim, int window, int capacity, int max_pending_rows,
                 KvFormat format = KvFormat::f32);

  /// Claims positions [position, position + rows), the next of the open window, and returns where their rows are to be
  /// stored (store_positions); they must be before any of them is read.
  const KeyValues& claim_rows(int position, int rows);

  const KeyValues& kv() const noexcept { return kv_; }

  /// Where the rows of a tree of `rows` are to be stored as well, at their numbers in the window, so that any path of
  /// it can be kept: rows of one depth share a position, and the last one written holds it.
  const KeyValues& tree(int rows);

  /// The first position a row at `position` may see: max(0, position - window + 1), 0 for full attention.
  int first_visible(int position) const noexcept;

  int window() const noexcept { return window_; }

  /// Bytes of the keys and values of one position.
  static std::size_t bytes_per_position(int kv_heads, int head_dim, KvFormat format) noexcept;

  void add_to(Digest& digest, int length) const override;

 protected:
  void restore(int row, int position) override;

 private:
  int window_;
  int capacity_;
  int max_pending_rows_;
  Aligned<std::byte> data_;  // mapped: pages that no text reaches cost nothing
  KeyValues kv_;
  Aligned<std::byte> tree_data_;
  KeyValues tree_{};  // no blocks until there is a tree
};

}  // namespace draftproof
