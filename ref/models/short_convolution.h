// SPDX-License-Identifier: MIT
// A gated short convolution, the recurrent layer of LFM2, row by row. With the normalized input n of a row:
//   b, c, x = W_in n
//   u = b * x
//   s = sum over j < width, sequential, of taps[j] * (u of the row width - 1 - j before), each product and sum rounded
//   y = W_out (c * s)
#pragma once

#include <span>
#include <vector>

#include "kernels/operations.h"
#include "ref/caches/convolution_cache.h"
#include "ref/models/transformer.h"

namespace draftproof {

struct ShortConvolutionWeights {
  PackedMatrix in;          // [3 * channels][hidden]: b, c, x
  PackedMatrix out;         // [hidden][channels]
  std::vector<float> taps;  // [width][channels], the last one for the row itself
};

/// Memory kept from call to call.
struct ShortConvolutionScratch {
  std::vector<float> projected, mixed;
  PackedActivations activations;

  /// Bytes of one row, those packed for weights left out.
  static std::size_t bytes_per_row(const ConvolutionShape& shape) noexcept;
};

/// Computes y [rows][hidden] from n [rows][hidden] and writes the rows to the caches of their segments. `ranges` are
/// all rows, those of a segment in order; each one of a tree begins a branch at its position.
void short_convolution(const Kernels& kernels, const ConvolutionShape& shape, const ShortConvolutionWeights& weights,
                       const float* n, int rows, std::span<const RowRange> ranges, ShortConvolutionScratch& scratch,
                       std::span<ConvolutionCache* const> caches, float* y);

}  // namespace draftproof
