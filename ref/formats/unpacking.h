// SPDX-License-Identifier: MIT
// Quantized formats of GGUF files that no kernel supports. They are unpacked, when they are read, to a format that
// represents the same values to the last bit, those of ggml's dequantize_row. All have quantization blocks of 32 values
// and are little-endian; byte j of the low bits has value j in its low and value j + 16 in its high four bits.
//
// q5_0: f16 d, 4 bytes of fifth bits (bit j for value j), 16 bytes of low bits; d * (q - 16): becomes a block of q8_0.
// q4_1: f16 d, f16 m, 16 bytes of low bits; d * q + m, where only the sum rounds: becomes 32 floats.
// q5_1: f16 d, f16 m, 4 bytes of fifth bits, 16 bytes of low bits; as q4_1.
#pragma once

#include <cstdint>

#include "kernels/formats.h"

namespace draftproof {

inline constexpr std::uint64_t unpacked_inputs = 32;  // values per quantization block

struct Unpacking {
  Format format;              // after unpacking
  std::uint64_t block_bytes;  // in the file
  /// Unpacks one block; `to` has row_bytes(format, 32) bytes. No alignment is needed. The values are finite when the
  /// scales are.
  void (*block)(const std::uint8_t* from, std::uint8_t* to);
};

void unpack_q5_0(const std::uint8_t* from, std::uint8_t* to);
void unpack_q4_1(const std::uint8_t* from, std::uint8_t* to);
void unpack_q5_1(const std::uint8_t* from, std::uint8_t* to);

inline constexpr Unpacking q5_0 = {Format::q8_0, 22, unpack_q5_0};
inline constexpr Unpacking q4_1 = {Format::f32, 20, unpack_q4_1};
inline constexpr Unpacking q5_1 = {Format::f32, 24, unpack_q5_1};

}  // namespace draftproof
