// SPDX-License-Identifier: MIT
// The cache of one gated delta net layer: the last width - 1 inputs of its causal convolution (the tail) and its delta
// state (kernels/delta_state.h), in f32, both zero before the first row.
//
// A pending row stores what a replay needs: its input of the convolution, and the key, value, decay and beta that it
// folds into the state. That is a few percent of a state (bytes_per_pending_row). A replay computes what the forward
// pass computed, from the same numbers in the same order, so it gives the same bits.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "kernels/aligned.h"
#include "kernels/delta_state.h"
#include "ref/caches/folded_cache.h"

namespace draftproof {

struct RecurrentShape {
  DeltaShape delta;
  int conv_width = 0;  // taps of the convolution, at least 2

  int key_floats() const noexcept { return delta.key_heads * delta.key_dim; }
  int value_floats() const noexcept { return delta.value_heads * delta.value_dim; }
  /// The channels of the convolution: q, k, v.
  int channels() const noexcept { return 2 * key_floats() + value_floats(); }
};

class RecurrentCache final : public FoldedCache {
 public:
  /// Sets `to` to the state `from` after `count` rows; both may be the same memory. It is gated_delta_rule of a kernel
  /// table, which the model gives, because a cache knows no kernels.
  using Replay =
      std::function<void(const DeltaShape& shape, const DeltaRows& rows, int count, const float* from, float* to)>;

  /// Aborts when the shape is not one of a layer, or has no room for a row.
  RecurrentCache(const RecurrentShape& shape, int max_pending_rows, Replay replay);

  /// Where the caller stores pending rows, row r at r * stride from each pointer, and what it computes them from.
  struct Rows {
    const float* tail;  // [conv_width - 1][channels]: the inputs of the convolution before the first row
    float* inputs;      // [channels]
    float* keys;
    float* values;
    float* decays;
    float* betas;
    std::ptrdiff_t stride;
    const float* from;  // the state before the first row
    float* to;          // the caller sets this state to that after the last row; may be `from`

    DeltaRows folded() const noexcept { return {keys, values, decays, betas, stride}; }
  };

  /// Claims positions [position, position + rows), the next ones of the open transaction. The caller must store all of
  /// the rows and set `to` before it claims others.
  Rows claim_rows(int position, int rows);

  /// Bytes of the tails and states, and of one pending row.
  static std::size_t fixed_bytes(const RecurrentShape& shape) noexcept;
  static std::size_t bytes_per_pending_row(const RecurrentShape& shape) noexcept;

  /// Adds the tail, oldest input first, then the state in order of value head, key dimension and value dimension.
  void add_to(Digest& digest, int length) const override;

  LayerSnapshotPtr snapshot(int from) const override;
  bool fits(const LayerSnapshot& snapshot) const override;

 protected:
  void load(const LayerSnapshot& snapshot, int length) override;
  void on_clear() override;
  void replay(int row, int rows, bool from_settled) override;
  void adopt() override;

 private:
  std::string layout() const;
  std::size_t tail_floats() const noexcept;
  Rows rows_at(int row, bool from_settled) const noexcept;
  /// Sets `to` to the tail after the pending rows of `path`; `to` may be the settled tail.
  void tail_after(std::span<const int> path, float* to) const noexcept;

  RecurrentShape shape_;
  int max_pending_rows_;
  Replay replay_;
  Aligned<float> tail_;  // the settled one
  Aligned<float> working_tail_;
  Aligned<float> state_;  // the settled one
  Aligned<float> working_state_;
  Aligned<float> rows_;  // [max_pending_rows][inputs, keys, values, decays, betas]; mapped memory
};

}  // namespace draftproof
