// SPDX-License-Identifier: MIT
#include "ref/models/short_convolution.h"

#include "kernels/threads.h"
#include "ref/models/causal_convolution.h"

namespace draftproof {
namespace {

struct Convolution {
  const ConvolutionShape& shape;
  const ShortConvolutionWeights& weights;
  ShortConvolutionScratch& scratch;

  const float* projected(int row) const { return scratch.projected.data() + std::ptrdiff_t{3} * row * shape.channels; }

  /// inputs = b * x
  void gate(int row, float* inputs) const {
    const float* const b = projected(row);
    const float* const x = b + 2 * std::ptrdiff_t{shape.channels};
    for (int i = 0; i < shape.channels; ++i) inputs[i] = b[i] * x[i];
  }

  /// mixed = c * the convolution of row `row` of these pending rows, which is row `at` of the pass.
  void convolve(const ConvolutionCache::Rows& pending, int row, int at) const {
    const std::ptrdiff_t channels = shape.channels;
    const float* const c = projected(at) + channels;
    float* const mixed = scratch.mixed.data() + at * channels;
    convolve_row(weights.taps.data(), shape.width, channels, pending, row, mixed);
    for (std::ptrdiff_t i = 0; i < channels; ++i) mixed[i] *= c[i];
  }
};

}  // namespace

std::size_t ShortConvolutionScratch::bytes_per_row(const ConvolutionShape& shape) noexcept {
  return sizeof(float) * 4 * static_cast<std::size_t>(shape.channels);
}

void short_convolution(const Kernels& kernels, const ConvolutionShape& shape, const ShortConvolutionWeights& weights,
                       const float* n, int rows, std::span<const RowRange> ranges, ShortConvolutionScratch& scratch,
                       std::span<ConvolutionCache* const> caches, float* y) {
  const Convolution convolution = {shape, weights, scratch};
  reserve_rows(scratch.projected, rows, 3 * shape.channels);
  reserve_rows(scratch.mixed, rows, shape.channels);
  pack_activations(kernels, weights.in, n, weights.in.inputs(), rows, scratch.activations);
  matmul(kernels, weights.in, scratch.activations, scratch.projected.data(), 3 * shape.channels);
  for (const RowRange& range : ranges) {
    ConvolutionCache& cache = *caches[static_cast<std::size_t>(range.segment)];
    cache.branch(range.position);
    const ConvolutionCache::Rows pending = cache.claim_rows(range.position, range.rows);
    for (int i = 0; i < range.rows; ++i) convolution.gate(range.row + i, pending.inputs + i * pending.stride);
    for_rows(range.rows, 2.0 * range.rows * shape.channels * shape.width, [&](int begin, int end) {
      for (int i = begin; i < end; ++i) convolution.convolve(pending, i, range.row + i);
    });
  }
  pack_activations(kernels, weights.out, scratch.mixed.data(), shape.channels, rows, scratch.activations);
  matmul(kernels, weights.out, scratch.activations, y, weights.out.outputs());
}

}  // namespace draftproof
