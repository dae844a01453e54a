// SPDX-License-Identifier: MIT
// The cache of one Mamba-2 layer: the tail of its convolution and, for each head, a state [state_size][head_dim]. A row
// folds its decays, its keys (B) and its values (x times the step) into the states.
#pragma once

#include <cstddef>
#include <string>

#include "ref/caches/convolved_cache.h"

namespace draftproof {

struct StateSpaceShape {
  int heads = 0;
  int head_dim = 0;
  int groups = 0;  // divides heads; head h reads the key and query of group h / (heads / groups)
  int state_size = 0;
  int conv_width = 0;  // taps of the convolution, at least 2

  int inner() const noexcept { return heads * head_dim; }
  int key_floats() const noexcept { return groups * state_size; }
  /// The channels of the convolution: x, B, C.
  int channels() const noexcept { return inner() + 2 * key_floats(); }
};

ConvolvedSizes sizes_of(const StateSpaceShape& shape) noexcept;

/// What rows fold into the states, row r at r * stride from each pointer.
struct StateSpaceRows {
  const float* keys;    // [groups][state_size]
  const float* values;  // [heads][head_dim]
  const float* decays;  // [heads], between 0 and 1
  std::ptrdiff_t stride;
};

class StateSpaceCache final : public ConvolvedCache {
 public:
  /// Sets `to` to the states `from` [heads][state_size][head_dim] after `count` rows; both may be the same memory.
  using Replay = void (*)(const StateSpaceShape& shape, const StateSpaceRows& rows, int count, const float* from,
                          float* to);

  /// Aborts when the shape is not one of a layer, or has no room for a row.
  StateSpaceCache(const StateSpaceShape& shape, int max_pending_rows, Replay replay);

  /// Where the caller stores pending rows, row r at r * stride from each pointer, and what it computes them from.
  struct Rows {
    const float* tail;  // [conv_width - 1][channels]: the inputs of the convolution before the first row
    float* inputs;      // [channels]
    float* keys;
    float* values;
    float* decays;
    std::ptrdiff_t stride;
    const float* from;  // the states before the first row
    float* to;          // the caller sets these states to those after the last row; may be `from`

    StateSpaceRows folded() const noexcept { return {keys, values, decays, stride}; }
  };

  /// Claims positions [position, position + rows), the next ones of the open transaction. The caller must store all of
  /// the rows and set `to` before it claims others.
  Rows claim_rows(int position, int rows);

  /// Adds the tail, oldest input first, then the states.
  void add_to(Digest& digest, int length) const override;

 private:
  std::string layout() const override;
  void replay(int row, int rows, bool from_settled) override;
  Rows named(const Pending& pending) const noexcept;

  StateSpaceShape shape_;
  Replay replay_;
};

}  // namespace draftproof
