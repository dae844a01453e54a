// SPDX-License-Identifier: MIT
// How a weight is stored in a checkpoint: floats, or blocks of integers with a scale. Layouts are those of GGUF files;
// all numbers are little-endian. The values a block stands for are fixed to the last bit: `widen_row` is the
// definition, and equals what ggml's dequantize_row gives.
//
// Plain data, constexpr functions and declarations only: the instruction-set files include this header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace draftproof {

enum class Format : std::uint8_t { f32, f16, bf16, q8_0, q4_0, q4_k, q5_k, q6_k };
inline constexpr int formats = 8;

struct FormatTraits {
  const char* name;   // as --quantize and synth name it, and GGUF in capitals
  int block_inputs;   // values per block; the inputs of a weight are a multiple of it
  int block_bytes;
};

/// q8_0: f16 d, 32 x int8 q; value d * q.
/// q4_0: f16 d, 16 bytes; byte j holds value j in its low and value j + 16 in its high four bits; d * (q - 8).
/// q4_k: f16 d, f16 dmin, 12 bytes of 6-bit scales s and minimums m for 8 groups of 32, 128 bytes of 4-bit q;
///       (d * s) * q - (dmin * m).
/// q5_k: f16 d, f16 dmin, the same 12 bytes, 32 bytes of fifth bits, 128 bytes of low four bits; as q4_k.
/// q6_k: 128 bytes of low four bits, 64 bytes of high two bits, int8 s for 16 groups of 16, f16 d; (d * s) * (q - 32).
inline constexpr FormatTraits format_traits[formats] = {
    {"f32", 1, 4},     {"f16", 1, 2},      {"bf16", 1, 2},     {"q8_0", 32, 34},
    {"q4_0", 32, 18},  {"q4_k", 256, 144}, {"q5_k", 256, 176}, {"q6_k", 256, 210},
};

constexpr const FormatTraits& traits(Format format) { return format_traits[static_cast<int>(format)]; }

/// Bytes of one row in a checkpoint. `inputs` is a multiple of the format's block.
constexpr std::size_t row_bytes(Format format, int inputs) {
  return static_cast<std::size_t>(inputs / traits(format).block_inputs) *
         static_cast<std::size_t>(traits(format).block_bytes);
}

/// The values of a row, exactly as the format defines them; `to` [inputs].
void widen_row(Format format, const void* row, int inputs, float* to) noexcept;

/// The row in another format, rounded as ggml's reference quantiser rounds (quantize_row_*_ref); f16 and bf16 to
/// nearest, ties to even. `to` has row_bytes(format, inputs). Values are finite.
void narrow_row(Format format, const float* row, int inputs, void* to) noexcept;

}  // namespace draftproof
