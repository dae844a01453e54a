// SPDX-License-Identifier: MIT
// The memory layout of the state of a gated delta net layer: for each value head a matrix [key_dim][value_dim], cut
// into panels of 16 value dimensions, which are independent of each other. The operation itself is an entry of the
// kernel table (kernels.h).
//
// Only plain data and constant functions, because the instruction-set files include this header.
#pragma once

#include <cstddef>

namespace draftproof {

struct DeltaShape {
  int key_heads;  // divides value_heads
  int value_heads;
  int key_dim;
  int value_dim;
  bool dealt = false;           // value head h reads key head h % key_heads, and else h / (value_heads / key_heads)
  bool channel_decays = false;  // each key dimension of a value head has a decay of its own
};

/// Returns how many decays a row has for one value head.
static inline constexpr int delta_decays(const DeltaShape& shape) { return shape.channel_decays ? shape.key_dim : 1; }

/// Returns the key head that a value head reads.
static inline constexpr int key_head_of(const DeltaShape& shape, int value_head) {
  return shape.dealt ? value_head % shape.key_heads : value_head / (shape.value_heads / shape.key_heads);
}

/// Returns the panels of one value head. The last one may have padding, which no element of the state depends on.
static inline constexpr int delta_panels(const DeltaShape& shape) { return (shape.value_dim + 15) / 16; }

/// Returns the floats of a state: [value_heads][delta_panels][key_dim][16].
static inline constexpr std::size_t delta_state_floats(const DeltaShape& shape) {
  return static_cast<std::size_t>(shape.value_heads) * static_cast<std::size_t>(delta_panels(shape)) *
         static_cast<std::size_t>(shape.key_dim) * 16;
}

/// Returns where the element of a value head, a key dimension and a value dimension lies.
static inline constexpr std::size_t delta_state_at(const DeltaShape& shape, int head, int key, int value) {
  const std::size_t panel = static_cast<std::size_t>(head) * static_cast<std::size_t>(delta_panels(shape)) +
                            static_cast<std::size_t>(value / 16);
  return (panel * static_cast<std::size_t>(shape.key_dim) + static_cast<std::size_t>(key)) * 16 +
         static_cast<std::size_t>(value % 16);
}

/// What rows fold into a state, row r at r * stride from each pointer.
struct DeltaRows {
  const float* keys;    // [key_heads][key_dim], normalized
  const float* values;  // [value_heads][value_dim]
  const float* decays;  // [value_heads][delta_decays], logarithms, at most 0
  const float* betas;   // [value_heads], between 0 and 1
  std::ptrdiff_t stride;
};

}  // namespace draftproof
