// SPDX-License-Identifier: MIT
// Block formats that GGUF files have and no kernel computes with. They are unpacked as they are read, into a format
// that stands for the same values to the last bit, those that ggml's dequantize_row gives. All have 32 values in a
// block and are little-endian; byte j of the low bits holds value j in its low and value j + 16 in its high four bits.
//
// q5_0: f16 d, 4 bytes of fifth bits, bit j that of value j, 16 bytes of low bits; d * (q - 16): a block of q8_0.
// q4_1: f16 d, f16 m, 16 bytes of low bits; d * q + m, where the product is exact and the sum is rounded: 32 floats.
// q5_1: f16 d, f16 m, 4 bytes of fifth bits, 16 bytes of low bits; as q4_1.
#pragma once

#include <cstdint>

#include "kernels/formats.h"

namespace draftproof {

inline constexpr std::uint64_t unpacked_inputs = 32;  // values in a block

struct Unpacking {
  Format format;              // what it becomes
  std::uint64_t block_bytes;  // in the file
  /// One block; `to` has row_bytes(format, 32). Neither needs an alignment. A value is finite when the scales are.
  void (*block)(const std::uint8_t* from, std::uint8_t* to);
};

void unpack_q5_0(const std::uint8_t* from, std::uint8_t* to);
void unpack_q4_1(const std::uint8_t* from, std::uint8_t* to);
void unpack_q5_1(const std::uint8_t* from, std::uint8_t* to);

inline constexpr Unpacking q5_0 = {Format::q8_0, 22, unpack_q5_0};
inline constexpr Unpacking q4_1 = {Format::f32, 20, unpack_q4_1};
inline constexpr Unpacking q5_1 = {Format::f32, 24, unpack_q5_1};

}  // namespace draftproof
