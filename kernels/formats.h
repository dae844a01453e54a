// SPDX-License-Identifier: MIT
// The formats in which checkpoints store weights: floats, or quantization blocks of integers with a scale. The layouts
// are those of GGUF files, but for iq1 to iq3_s; all numbers are little-endian. The value of every element is fixed to
// the last bit: read_block and dequantize_row are the definition, and equal ggml's dequantize_row. Every product within
// a quantization block is exact in f32 (its factors have at most 24 bits together), so only adding a minimum rounds.
//
// Only plain data and declarations, and the few functions have internal linkage, because the instruction-set files
// include this header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace draftproof {

enum class Format : std::uint8_t {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  iq4_nl,
  q4_k,
  q5_k,
  q6_k,
  iq4_xs,
  mxfp4,
  q2_k,
  q3_k,
  iq1,
  iq2,
  iq3_xxs,
  iq3_s
};
inline constexpr int formats = 20;

/// What the codes of four bits of iq4_nl and iq4_xs stand for (ggml's kvalues_iq4nl).
inline constexpr std::int8_t iq4_numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};

/// What the codes of four bits of mxfp4 stand for: twice the floats of four bits, without a sign of zero.
inline constexpr std::int8_t fp4_numbers[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// What the codes of iq1 to iq3_s stand for: the numbers of their grids, then their negatives; of iq1 eight times -1, 0
/// and 1, less 1, then plus 1. iq1 and iq2 use three bits.
inline constexpr std::int8_t iq1_numbers[16] = {-9, -1, 7, 0, -7, 1, 9};
inline constexpr std::int8_t iq2_numbers[16] = {8, 25, 43, 0, -8, -25, -43};
inline constexpr std::int8_t iq3_xxs_numbers[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                                    -4, -12, -20, -28, -36, -44, -52, -62};
inline constexpr std::int8_t iq3_s_numbers[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};

struct FormatTraits {
  const char* name;  // as in --quantize and synth; GGUF writes it in capitals
  int block_inputs;  // values per quantization block; the inputs of a weight are a multiple of it
  int block_bytes;
  int code_bits = 0;  // of q, as it is packed
  int offset = 0;     // what is subtracted from codes, or added to `numbers` while they are multiplied without a sign
  bool has_minimums = false;
  int scale = 0;                         // where the first scale is in the block
  int scales = 0;                        // f16 scales, one after the other; 0: the scale is a byte e, 2^(e - 128)
  const std::int8_t* numbers = nullptr;  // that codes of at most four bits stand for; nullptr: for themselves
  float unit = 1;                        // of f16 scales: what they count
};

/// q8_0: f16 d, 32 x int8 q; value d * q.
/// q4_0: f16 d, 16 bytes; byte j has value j in its low and value j + 16 in its high four bits; d * (q - 8).
/// q4_1: f16 d, f16 m, 16 bytes as q4_0; d * q + m.
/// q5_0: f16 d, 4 bytes of fifth bits, bit j for value j, 16 bytes of low four bits as q4_0; d * (q - 16).
/// q5_1: f16 d, f16 m, then as q5_0; d * q + m.
/// iq4_nl: as q4_0; d * iq4_numbers[code].
/// mxfp4: one byte e, 16 bytes of codes as q4_0; 2^(e - 128) * fp4_numbers[code].
/// q2_k: 16 bytes, 4-bit scales s in the low and minimums m in the high four bits, for 16 groups of 16; 64 bytes of
///       2-bit q: each 32 bytes have four groups of 32, the first in the lowest bits; f16 d, f16 dmin; as q4_k.
/// q3_k: 32 bytes of third bits, bit i / 32 of byte i % 32 for value i; 64 bytes of low two bits as q2_k; 12 bytes of
///       6-bit scales s of 16 groups of 16, the low four bits in the first eight; f16 d; (d * (s - 32)) * (q - 4).
/// q4_k: f16 d, f16 dmin, 12 bytes of 6-bit scales s and minimums m for 8 groups of 32, 128 bytes of 4-bit q;
///       (d * s) * q - (dmin * m).
/// q5_k: f16 d, f16 dmin, the same 12 bytes, 32 bytes of fifth bits, 128 bytes of low four bits; as q4_k.
/// q6_k: 128 bytes of low four bits, 64 bytes of high two bits, int8 s for 16 groups of 16, f16 d; (d * s) * (q - 32).
/// iq4_xs: f16 d, 2 bytes of the high two bits of 6-bit scales s for 8 groups of 32, 4 bytes of their low four bits, 16
///         bytes of codes as iq4_nl for each group; (d * (s - 32)) * iq4_numbers[code].
/// iq1, iq2, iq3_xxs, iq3_s: f16 d, 16 int8 s for 16 groups of 16, 16 bytes of codes as iq4_nl for each 32 values;
///         (d * unit * s) * number. What GGUF's IQ1_S and IQ1_M, IQ2_*, IQ3_XXS and IQ3_S hold, without their grids.
inline constexpr FormatTraits format_traits[formats] = {
    {"f32", 1, 4},
    {"f16", 1, 2},
    {"bf16", 1, 2},
    {"q8_0", 32, 34, 8, 0, false, 0, 1},
    {"q4_0", 32, 18, 4, 8, false, 0, 1},
    {"q4_1", 32, 20, 4, 0, true, 0, 2},
    {"q5_0", 32, 22, 5, 16, false, 0, 1},
    {"q5_1", 32, 24, 5, 0, true, 0, 2},
    {"iq4_nl", 32, 18, 4, 0, false, 0, 1, iq4_numbers},
    {"q4_k", 256, 144, 4, 0, true, 0, 2},
    {"q5_k", 256, 176, 5, 0, true, 0, 2},
    {"q6_k", 256, 210, 6, 32, false, 208, 1},
    {"iq4_xs", 256, 136, 4, 0, false, 0, 1, iq4_numbers},
    {"mxfp4", 32, 17, 4, 16, false, 0, 0, fp4_numbers},
    {"q2_k", 256, 84, 2, 0, true, 80, 2},
    {"q3_k", 256, 110, 3, 4, false, 108, 1},
    {"iq1", 256, 146, 3, 32, false, 0, 1, iq1_numbers, 0.125f},
    {"iq2", 256, 146, 3, 64, false, 0, 1, iq2_numbers, 0.125f},
    {"iq3_xxs", 256, 146, 4, 64, false, 0, 1, iq3_xxs_numbers, 0.25f},
    {"iq3_s", 256, 146, 4, 32, false, 0, 1, iq3_s_numbers},
};

static inline constexpr const FormatTraits& traits(Format format) { return format_traits[static_cast<int>(format)]; }

static inline constexpr bool is_float(Format format) { return traits(format).block_inputs == 1; }

/// Whether it is one of those that differ in their numbers alone.
static inline constexpr bool is_iq1_to_iq3(Format format) { return format >= Format::iq1; }

/// Returns the bytes of one row in a checkpoint. `inputs` is a multiple of the format's block_inputs.
static inline constexpr std::size_t row_bytes(Format format, int inputs) {
  return static_cast<std::size_t>(inputs / traits(format).block_inputs) *
         static_cast<std::size_t>(traits(format).block_bytes);
}

/// Convert f16 and bf16 to f32 exactly, including the payload of a NaN.
static inline constexpr float f16_to_f32(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t rest = std::uint32_t{half & 0x7fffu} << 13;
  if (rest >= 0x7c00u << 13) return __builtin_bit_cast(float, sign | 0x7f800000u | rest);  // infinity, NaN
  // The exponent biases differ by 112. The multiplication is exact and also converts denormals.
  const float magnitude = __builtin_bit_cast(float, rest) * 0x1p112f;
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, magnitude));
}

static inline constexpr float bf16_to_f32(std::uint16_t brain) {
  return __builtin_bit_cast(float, std::uint32_t{brain} << 16);
}

/// Convert f32 to f16 and bf16, to nearest, ties to even. Denormals are kept, values that are too large become
/// infinite, and a NaN becomes quiet.
static inline constexpr std::uint16_t f32_to_f16(float value) {
  const std::uint32_t word = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = word >> 16 & 0x8000u;
  const std::uint32_t rest = word & 0x7fffffffu;
  std::uint32_t half = 0;
  if (rest > 0x7f800000u) {
    half = 0x7e00u | (rest >> 13 & 0x1ffu);
  } else if (rest >= 0x477ff000u) {  // 65520, half a step above the largest f16
    half = 0x7c00u;
  } else if (rest < 0x38800000u) {  // below 2^-14 a step is 2^-24, as of floats in [1/2, 1): the sum rounds
    half = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, rest) + 0.5f) - 0x3f000000u;
  } else {
    half = (rest - (112u << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

static inline constexpr std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t word = __builtin_bit_cast(std::uint32_t, value);
  if ((word & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(word >> 16 | 0x40u);
  return static_cast<std::uint16_t>((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
}

/// Returns 2^(exponent - 128), half of what the byte is as an E8M0.
static inline constexpr float power_of_two(std::uint8_t exponent) {
  const std::uint32_t e = exponent;
  return __builtin_bit_cast(float, e < 2 ? 0x00200000u << e : (e - 1) << 23);
}
/// Returns the exponent of such a power.
static inline constexpr std::uint8_t exponent_of(float power) {
  const std::uint32_t word = __builtin_bit_cast(std::uint32_t, power);
  return static_cast<std::uint8_t>(word < 0x00800000u ? word >> 22 : (word >> 23) + 1);
}
/// Beyond this exponent a block of mxfp4 may have values that no float holds.
inline constexpr std::uint8_t mxfp4_exponent_max = 252;

/// The factors of products in bf16: below 2^-56 in magnitude they are zeros of their sign.
static inline constexpr std::uint16_t bf16_factor(std::uint16_t brain) {
  constexpr std::uint16_t min = (127 - 56) << 7;
  return (brain & 0x7fffu) < min ? static_cast<std::uint16_t>(brain & 0x8000u) : brain;
}

/// A quantization block as numbers; value k is (d * s[k / 16]) * q[k] - dmin * m[k / 16]. Where a format has one scale
/// for a block, s is 1; where it adds a minimum, dmin is the minimum's negative and m is 1; where it has none, both are
/// 0.
struct QuantizationBlock {
  float d;
  float dmin;
  int s[16];
  int m[16];
  std::int8_t q[256];
};

/// Reads a block of a quantized format. `block` needs no alignment.
QuantizationBlock read_block(Format format, const void* block) noexcept;
/// Reads its numbers q alone, [block_inputs].
void read_numbers(Format format, const void* block, std::int8_t* q) noexcept;

/// Of a format with a table of numbers: the first code that stands for number n, at place n + 128.
const std::uint8_t* codes_of_numbers(Format format) noexcept;

/// Writes numbers that a block of q8_0, q4_0, q4_1, q5_0, q5_1, q3_k, q6_k, mxfp4 or iq1 to iq3_s holds, with d and m
/// rounded to f16; of mxfp4, d is a power of two that a block has. `to` needs no alignment.
void write_block(Format format, const QuantizationBlock& block, void* to) noexcept;

/// Writes the values of a block to `to` [inputs].
void values_of_block(const QuantizationBlock& block, int inputs, float* to) noexcept;

/// Writes the values of a row, exactly as the format defines them, to `to` [inputs]. `row` needs no alignment.
void dequantize_row(Format format, const void* row, int inputs, float* to) noexcept;

/// Converts a row of finite values to `format`. `to` has row_bytes(format, inputs) bytes and needs no alignment.
/// f16 and bf16: as above. Blocks of 32, but for iq4_nl: the same bytes as ggml's quantize_row_q8_0_ref and its like.
/// q2_k to q6_k: the range of each group, its scale (and minimum) to the nearest 4, 6 or 8 bits, each value to the
/// nearest step; simpler than ggml's search, and the bytes differ from ggml's. A scale beyond the range of f16 becomes
/// infinite, which readers reject.
void quantize_row(Format format, const float* row, int inputs, void* to) noexcept;

/// Returns the index of the first of `count` values that is not finite, or `count`. Floats are checked one by one. For
/// quantized formats, `count` is a multiple of block_inputs, the scales of each quantization block are checked, those
/// that are powers of two for being so large that values may not be finite, and the index is that of the block's first
/// value.
std::size_t first_not_finite(Format format, const void* values, std::size_t count) noexcept;

}  // namespace draftproof
