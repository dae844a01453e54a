// SPDX-License-Identifier: MIT
// The cache of one gated delta net layer: the tail of its convolution and its delta state (kernels/delta_state.h). A
// row folds its key, value, decays and beta into the state.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "kernels/delta_state.h"
#include "ref/caches/convolved_cache.h"

namespace draftproof {

struct RecurrentShape {
  DeltaShape delta;
  int conv_width = 0;  // taps of the convolution, at least 2

  int key_floats() const noexcept { return delta.key_heads * delta.key_dim; }
  int value_floats() const noexcept { return delta.value_heads * delta.value_dim; }
  int decay_floats() const noexcept { return delta.value_heads * delta_decays(delta); }
  /// The channels of the convolution: q, k, v.
  int channels() const noexcept { return 2 * key_floats() + value_floats(); }
};

ConvolvedSizes sizes_of(const RecurrentShape& shape) noexcept;

class RecurrentCache final : public ConvolvedCache {
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

  /// Adds the tail, oldest input first, then the state in order of value head, key dimension and value dimension.
  void add_to(Digest& digest, int length) const override;

 private:
  std::string layout() const override;
  void replay(int row, int rows, bool from_settled) override;
  Rows named(const Pending& pending) const noexcept;

  RecurrentShape shape_;
  Replay replay_;
};

}  // namespace draftproof
