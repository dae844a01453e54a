// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>

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

}  // namespace draftproof
