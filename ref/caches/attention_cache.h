// SPDX-License-Identifier: MIT
// The KV cache of one attention layer. It keeps every position (full attention) or the last `window` positions (sliding
// window).
//
// Both are one ring of KV blocks of 16 positions (kernels/key_values.h). The ring of a full-attention layer is as long
// as the text may get and never wraps. The ring of a sliding-window layer holds `window` old positions, the pending
// rows of one transaction, and the rounding to whole KV blocks. With n settled positions and `pending` pending rows,
// rows n ... n + pending - 1 may be written, and the oldest position that any of them or any later row can see is n -
// window + 1. These window - 1 + pending positions fit the ring, so no two of them share a place: a pending row
// overwrites only positions that no row from n on can see, and dropping it costs nothing. The one place more keeps
// position 0 until the text is longer than the window: so long it can be truncated. A KV block may hold rows of
// different laps of the ring; readers use only its visible lanes.
//
// A snapshot holds positions packed (kernels/key_values.h): of full attention any range, as rows; of a sliding window a
// state of all positions while they are no more than the window, and then of the last window - 1.
//
// Dropping positions moves the later rows: values as they are stored; keys are read as floats, turned back by the
// dropped positions and stored again, so q8 and bf16 round them once more, and q8 the values that latent keys hold. A
// sliding window can drop positions only when what its next rows can see is still there.
//
// Where ranks compute together (kernels/ranks.h), each keeps its KV heads. Snapshots and digests are those of all
// heads, so every rank takes part in them.
//
// The content of a position depends only on the row stored there and on the format, so a warm cache equals a cold one
// in every format.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "kernels/aligned.h"
#include "kernels/key_values.h"
#include "kernels/ranks.h"
#include "ref/caches/cache.h"

namespace draftproof {

class AttentionCache final : public LayerCache {
 public:
  static constexpr int block = 16;      // positions per KV block
  static constexpr int everything = 0;  // window of a full-attention layer

  /// Turns `count` keys [head_dim], one after the other, back by `positions`, which is what the model's position
  /// encoding makes of the same keys so much earlier. Empty: keys do not depend on their position.
  using TurnBack = std::function<void(float* keys, int count, int positions)>;

  /// `latent`: the values that a key ends with are its value too and are stored once (key_values.h); 0: values are
  /// stored of their own. `ranks`: keep some of the heads each, and outlive the cache; nullptr: all are here.
  AttentionCache(int kv_heads, int head_dim, int window, int capacity, int max_pending_rows,
                 KvFormat format = KvFormat::f32, TurnBack turn_back = {}, int latent = 0, Ranks* ranks = nullptr);

  /// Claims positions [position, position + rows), the next ones of the open transaction, and returns where to store
  /// their rows (store_positions). The caller must store them before reading any of them.
  const KeyValues& claim_rows(int position, int rows);

  const KeyValues& kv() const noexcept { return kv_; }  // of the heads that are here
  Ranks* ranks() const noexcept { return ranks_; }

  /// The second place where rows of a tree must be stored, so that any path of it can be kept: rows of equal depth
  /// share a position, which holds the last one written.
  struct TreeRows {
    const KeyValues& kv;
    int first;  // where the first of them belongs: its row number
  };
  /// Returns the place of the `rows` rows that were claimed last. Every row of a transaction is a row of its tree, or
  /// none is.
  TreeRows tree_rows(int rows);

  /// The rows of the open transaction's tree so far.
  int rows_of_tree() const noexcept { return static_cast<int>(tree_positions_.size()); }

  /// Stores these rows of the tree at their positions again, for a layer that reads this cache when later rows are
  /// there already. Rows [0, rows_of_tree()) leave what the first storing left.
  void recall(int first, int rows);

  /// Returns the first position that a row at `position` can see: max(0, position - window + 1); 0 for full attention.
  int first_visible(int position) const noexcept;

  int window() const noexcept { return window_; }

  /// Bytes of the keys and values of one position.
  static std::size_t bytes_per_position(int kv_heads, int head_dim, KvFormat format, int latent = 0) noexcept;

  void add_to(Digest& digest, int length) const override;

  LayerSnapshotPtr snapshot(int from) const override;
  bool fits(const LayerSnapshot& snapshot) const override;

  std::string discard_error(int length, int from, int count) const override;

 protected:
  void restore(int row, int position) override;
  void on_open() override;
  void load(const LayerSnapshot& snapshot, int length) override;
  bool may_truncate() const override;
  void on_discard(int from, int count) override;

 private:
  std::string layout() const;
  /// The bytes of a position in a snapshot, of one head.
  std::size_t head_bytes() const noexcept;
  /// Returns the first position that is stored when the text has `length`: that of a snapshot.
  int first_stored(int length) const noexcept;

  int window_;
  int capacity_;
  int max_pending_rows_;
  int kv_heads_;  // of all ranks
  Ranks* ranks_;
  HeldHeads held_;
  Aligned<std::byte> data_;  // mapped memory: OS pages that no text reaches cost nothing
  KeyValues kv_;
  TurnBack turn_back_;
  Aligned<std::byte> tree_data_;
  KeyValues tree_{};  // without KV blocks until the first tree; room for the largest transaction with a tree so far
  std::vector<int> tree_positions_;  // of the rows of the open transaction's tree
};

}  // namespace draftproof
