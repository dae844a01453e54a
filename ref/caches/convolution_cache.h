// SPDX-License-Identifier: MIT
// The cache of a layer that is a short causal convolution: its last width - 1 inputs, and no state beside them.
#pragma once

#include <cstddef>
#include <string>

#include "ref/caches/convolved_cache.h"

namespace draftproof {

struct ConvolutionShape {
  int channels = 0;
  int width = 0;  // taps, at least 2
};

ConvolvedSizes sizes_of(const ConvolutionShape& shape) noexcept;

class ConvolutionCache final : public ConvolvedCache {
 public:
  /// Aborts when the shape is not one of a layer, or has no room for a row.
  ConvolutionCache(const ConvolutionShape& shape, int max_pending_rows);

  /// Where the caller stores pending rows, row r at r * stride, and the inputs before the first.
  struct Rows {
    const float* tail;  // [width - 1][channels]
    float* inputs;      // [channels]
    std::ptrdiff_t stride;
  };
  /// Claims positions [position, position + rows), the next ones of the open transaction. The caller must store all of
  /// the rows before it claims others.
  Rows claim_rows(int position, int rows);

  /// Adds the tail, oldest input first.
  void add_to(Digest& digest, int length) const override;

 private:
  std::string layout() const override;
  void replay(int row, int rows, bool from_settled) override;

  ConvolutionShape shape_;
};

}  // namespace draftproof
