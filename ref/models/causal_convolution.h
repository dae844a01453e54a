// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/kernels.h"
#include "ref/models/transformer.h"

namespace draftproof {

/// Sets sums [channels] to those of a depthwise convolution for row `row` of the pending rows of a cache: over
/// j < width, sequential, taps[j] * (the input of the row width - 1 - j before), each product and sum rounded.
/// `taps`: [width][channels], the last tap for the row itself.
template <class PendingRows>
void convolve_row(const float* taps, int width, std::ptrdiff_t channels, const PendingRows& pending, int row,
                  float* sums) {
  std::fill_n(sums, channels, 0.0F);
  for (int j = 0; j < width; ++j) {
    const int from = row - (width - 1) + j;
    const float* const inputs =
        from < 0 ? pending.tail + (width - 1 + from) * channels : pending.inputs + from * pending.stride;
    for (std::ptrdiff_t i = 0; i < channels; ++i) sums[i] += taps[j * channels + i] * inputs[i];
  }
}

/// Sets x [channels] to SiLU of these sums and the bias, s / (1 + exp(-s)). powers: [channels], overwritten.
template <class PendingRows>
void convolve_row(const Kernels& kernels, const std::vector<float>& taps, const std::vector<float>& bias,
                  const PendingRows& pending, int row, float* x, float* powers) {
  const std::size_t channels = bias.size();
  convolve_row(taps.data(), static_cast<int>(taps.size() / channels), static_cast<std::ptrdiff_t>(channels), pending,
               row, x);
  for (std::size_t i = 0; i < channels; ++i) x[i] += bias[i];
  kernels.exponentials(x, 0, -1, channels, powers);
  for (std::size_t i = 0; i < channels; ++i) x[i] /= 1 + powers[i];
}

/// Loads taps [width][channels] from [channels][1][width] of a folder or [channels][width] of a GGUF.
inline std::vector<float> load_taps(const WeightLoader& from, const std::string& name, int channels, int width) {
  std::vector<std::int64_t> shape = {channels, width};
  if (from.weights.metadata() == nullptr) shape.insert(shape.begin() + 1, 1);
  return taps_by_row(from.floats(name, shape), width);
}

}  // namespace draftproof
