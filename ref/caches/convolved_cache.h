// SPDX-License-Identifier: MIT
// The cache of a recurrent layer that begins with a causal convolution: the last width - 1 inputs of the convolution
// (the tail) and a state, in f32, both zero before the first row. What a row folds into the state is of its kind.
//
// A pending row stores what a replay needs: its input of the convolution, and what it folds. That is a few percent of a
// state (bytes_per_pending_row). A replay computes what the forward pass computed, from the same numbers in the same
// order, so it gives the same bits.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/aligned.h"
#include "ref/caches/folded_cache.h"

namespace draftproof {

/// Counted in floats.
struct ConvolvedSizes {
  int channels = 0;        // of the convolution
  int conv_width = 0;      // taps, at least 2
  std::size_t folded = 0;  // what a row folds into the state
  std::size_t state = 0;

  std::size_t tail() const noexcept {
    return static_cast<std::size_t>(conv_width - 1) * static_cast<std::size_t>(channels);
  }
  std::size_t row() const noexcept { return static_cast<std::size_t>(channels) + folded; }
  /// Bytes of the tails and states, and of one pending row.
  std::size_t fixed_bytes() const noexcept { return 2 * sizeof(float) * (tail() + state); }
  std::size_t bytes_per_pending_row() const noexcept { return sizeof(float) * row(); }
};

class ConvolvedCache : public FoldedCache {
 public:
  LayerSnapshotPtr snapshot(int from) const final;
  bool fits(const LayerSnapshot& snapshot) const final;

 protected:
  /// Aborts when there is no convolution, or no room for a row.
  ConvolvedCache(const ConvolvedSizes& sizes, int max_pending_rows);

  /// LayerSnapshot::layout.
  virtual std::string layout() const = 0;

  /// Pending rows, row r at r * stride from each pointer, and what they are computed from.
  struct Pending {
    const float* tail;  // [conv_width - 1][channels]: the inputs of the convolution before the first row
    float* inputs;      // [channels]
    float* folded;
    std::ptrdiff_t stride;
    const float* from;  // the state before the first row
    float* to;          // that after the last row; may be `from`
  };
  /// Claims positions [position, position + rows), the next ones of the open transaction. All of the rows must be
  /// stored and `to` be set before others are claimed.
  Pending claim_pending(int position, int rows);
  Pending pending_at(int row, bool from_settled) const noexcept;

  /// The settled ones.
  std::span<const float> tail() const noexcept { return {tail_.get(), sizes_.tail()}; }
  const float* state() const noexcept { return state_.get(); }

  void load(const LayerSnapshot& snapshot, int length) final;
  void on_clear() final;
  void adopt() final;

 private:
  /// Sets `to` to the tail after the pending rows of `path`; `to` may be the settled tail.
  void tail_after(std::span<const int> path, float* to) const noexcept;

  ConvolvedSizes sizes_;
  int max_pending_rows_;
  Aligned<float> tail_;  // the settled one
  Aligned<float> working_tail_;
  Aligned<float> state_;  // the settled one
  Aligned<float> working_state_;
  Aligned<float> rows_;  // [max_pending_rows][inputs, folded]; mapped memory
};

}  // namespace draftproof
