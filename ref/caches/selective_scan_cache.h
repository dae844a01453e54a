// SPDX-License-Identifier: MIT
// The cache of one Mamba-1 layer: the tail of its convolution and, for each channel, a state of a few numbers,
// [state_size][channels]. A row folds its steps, its keys (B) and its values (x times the step) into the states; what
// the states decay by follows from the steps and the layer's rates.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "ref/caches/convolved_cache.h"

namespace draftproof {

struct SelectiveScanShape {
  int channels = 0;
  int state_size = 0;
  int conv_width = 0;  // taps of the convolution, at least 2
  int step_rank = 0;   // of the matrix that makes the steps
};

ConvolvedSizes sizes_of(const SelectiveScanShape& shape) noexcept;

/// What rows fold into the states, row r at r * stride from each pointer.
struct SelectiveScanRows {
  const float* keys;    // [state_size]
  const float* values;  // [channels]
  const float* steps;   // [channels]
  std::ptrdiff_t stride;
};

class SelectiveScanCache final : public ConvolvedCache {
 public:
  /// Sets `to` to the states `from` [state_size][channels] after `count` rows; both may be the same memory. `rates`:
  /// [state_size][channels], of the layer.
  using Replay =
      std::function<void(const float* rates, const SelectiveScanRows& rows, int count, const float* from, float* to)>;

  /// Aborts when the shape is not one of a layer, or has no room for a row.
  SelectiveScanCache(const SelectiveScanShape& shape, int max_pending_rows, Replay replay);

  /// Where the caller stores pending rows, row r at r * stride from each pointer, and what it computes them from.
  struct Rows {
    const float* tail;  // [conv_width - 1][channels]: the inputs of the convolution before the first row
    float* inputs;      // [channels]
    float* keys;
    float* values;
    float* steps;
    std::ptrdiff_t stride;
    const float* from;  // the states before the first row
    float* to;          // the caller sets these states to those after the last row; may be `from`

    SelectiveScanRows folded() const noexcept { return {keys, values, steps, stride}; }
  };

  /// Claims positions [position, position + rows), the next ones of the open transaction. The caller must store all of
  /// the rows and set `to` before it claims others. `rates` must stay until the transaction ends.
  Rows claim_rows(const float* rates, int position, int rows);

  /// Adds the tail, oldest input first, then the states.
  void add_to(Digest& digest, int length) const override;

 private:
  std::string layout() const override;
  void replay(int row, int rows, bool from_settled) override;
  Rows named(const Pending& pending) const noexcept;

  SelectiveScanShape shape_;
  Replay replay_;
  const float* rates_ = nullptr;  // of the open transaction
};

}  // namespace draftproof
