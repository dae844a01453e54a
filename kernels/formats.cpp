// SPDX-License-Identifier: MIT
// Each format has one function that dequantizes a quantization block and one that quantizes it.
#include "kernels/formats.h"

#include <cstring>

namespace draftproof {
namespace {

using Bytes = const std::uint8_t*;

std::uint16_t word_at(Bytes at) {
  std::uint16_t word;
  std::memcpy(&word, at, 2);
  return word;
}

float half_at(Bytes at) { return f16_to_f32(word_at(at)); }

void put_half(float value, std::uint8_t* at) {
  const std::uint16_t half = f32_to_f16(value);
  std::memcpy(at, &half, 2);
}

float magnitude(float x) { return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, x) & 0x7fffffffu); }

/// Rounds to nearest, halves away from zero; |x| < 2^23.
int rounded(float x) {
  const int whole = static_cast<int>(magnitude(x));
  const int nearest = magnitude(x) - static_cast<float>(whole) >= 0.5f ? whole + 1 : whole;
  return x < 0 ? -nearest : nearest;
}

int clamped(int x, int min, int max) { return x < min ? min : x > max ? max : x; }

/// Returns 1 / x, or 0 when that is not finite: such small scales are 0 in f16 as well.
float inverse(float x) {
  const float one_over = 1.0f / x;
  return magnitude(one_over) <= __FLT_MAX__ ? one_over : 0.0f;
}

/// Returns x in steps of 1 / steps_per_unit, rounded and clamped to [least, most]; x may be large.
int steps(float x, float steps_per_unit, int min, int max) {
  const float exact = x * steps_per_unit;
  if (!(exact > static_cast<float>(min))) return min;
  if (exact >= static_cast<float>(max)) return max;
  return rounded(exact);
}

// The 6-bit scales and minimums of q4_k and q5_k. Groups 0 to 3: the low six bits of bytes 0 to 3 (scales) and 4 to 7
// (minimums). Groups 4 to 7: the low four bits of both share bytes 8 to 11, the high two bits are the top bits of bytes
// 0 to 3 (scales) and 4 to 7 (minimums).
struct ScaleAndMinimum {
  int scale;
  int minimum;
};

ScaleAndMinimum scale_and_minimum(Bytes packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  const int low = packed[group + 4];
  return {(low & 15) | packed[group - 4] >> 6 << 4, low >> 4 | packed[group] >> 6 << 4};
}

void put_scale_and_minimum(ScaleAndMinimum values, int group, std::uint8_t* packed) {
  const auto byte = [](int value) { return static_cast<std::uint8_t>(value); };
  if (group < 4) {
    packed[group] = byte(packed[group] | values.scale);
    packed[group + 4] = byte(packed[group + 4] | values.minimum);
  } else {
    packed[group + 4] = byte((values.scale & 15) | (values.minimum & 15) << 4);
    packed[group - 4] = byte(packed[group - 4] | values.scale >> 4 << 6);
    packed[group] = byte(packed[group] | values.minimum >> 4 << 6);
  }
}

void dequantize_q8_0(Bytes block, float* to) {
  const float d = half_at(block);
  for (int j = 0; j < 32; ++j) to[j] = d * static_cast<float>(static_cast<std::int8_t>(block[2 + j]));
}

void dequantize_q4_0(Bytes block, float* to) {
  const float d = half_at(block);
  for (int j = 0; j < 16; ++j) {
    to[j] = d * static_cast<float>((block[2 + j] & 15) - 8);
    to[j + 16] = d * static_cast<float>((block[2 + j] >> 4) - 8);
  }
}

/// Dequantizes q4_k, or q5_k when `fifth` is not null. Groups 2g and 2g + 1 are the low and high four bits of 32 bytes.
void dequantize_with_minimums(Bytes block, Bytes fifth, Bytes low, float* to) {
  const float d = half_at(block);
  const float d_minimum = half_at(block + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum packed = scale_and_minimum(block + 4, group);
    const float scale = d * static_cast<float>(packed.scale);
    const float minimum = d_minimum * static_cast<float>(packed.minimum);
    for (int j = 0; j < 32; ++j) {
      int q = low[group / 2 * 32 + j] >> group % 2 * 4 & 15;
      if (fifth != nullptr) q |= (fifth[j] >> group & 1) << 4;
      to[group * 32 + j] = scale * static_cast<float>(q) - minimum;
    }
  }
}

void dequantize_q4_k(Bytes block, float* to) { dequantize_with_minimums(block, nullptr, block + 16, to); }
void dequantize_q5_k(Bytes block, float* to) { dequantize_with_minimums(block, block + 16, block + 48, to); }

/// Where value i of a q6_k block is stored. Each half of 128 values has four groups of 32, which share 64 bytes of low
/// bits (two groups in the low four bits, two in the high four bits) and 32 bytes of high bits (two bits for each
/// group).
struct PlaceInQ6 {
  int low;
  int low_shift;
  int high;
  int high_shift;
};

PlaceInQ6 place_in_q6(int i) {
  const int half = i / 128;
  const int run = i / 32 % 4;
  return {half * 64 + i % 64, run / 2 * 4, 128 + half * 32 + i % 32, run * 2};
}

constexpr int q6_scales = 192;
constexpr int q6_d = 208;

void dequantize_q6_k(Bytes block, float* to) {
  const float d = half_at(block + q6_d);
  for (int i = 0; i < 256; ++i) {
    const PlaceInQ6 at = place_in_q6(i);
    const int q = (block[at.low] >> at.low_shift & 15) | (block[at.high] >> at.high_shift & 3) << 4;
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(block[q6_scales + i / 16]));
    to[i] = scale * static_cast<float>(q - 32);
  }
}

void quantize_q8_0(const float* x, std::uint8_t* block) {
  float largest = 0;
  for (int j = 0; j < 32; ++j) largest = magnitude(x[j]) > largest ? magnitude(x[j]) : largest;
  const float d = largest / 127;
  put_half(d, block);
  const float per_unit = inverse(d);
  for (int j = 0; j < 32; ++j) block[2 + j] = static_cast<std::uint8_t>(rounded(x[j] * per_unit));
}

void quantize_q4_0(const float* x, std::uint8_t* block) {
  float largest = 0;  // by magnitude, with its sign, the first among equals; it becomes -8 steps
  for (int j = 0; j < 32; ++j) largest = magnitude(x[j]) > magnitude(largest) ? x[j] : largest;
  const float d = largest / -8;
  put_half(d, block);
  const float per_unit = inverse(d);
  const auto q = [&](float value) { return clamped(static_cast<int>(value * per_unit + 8.5f), 0, 15); };
  for (int j = 0; j < 16; ++j) block[2 + j] = static_cast<std::uint8_t>(q(x[j]) | q(x[j + 16]) << 4);
}

/// Quantizes to q4_k, or to q5_k when `fifth` is not null.
void quantize_with_minimums(const float* x, std::uint8_t* block, std::uint8_t* fifth, std::uint8_t* low) {
  const int max = fifth != nullptr ? 31 : 15;
  float scales[8];
  float minimums[8];  // the distance of the group's smallest value below zero
  float largest_scale = 0;
  float largest_minimum = 0;
  for (int group = 0; group < 8; ++group) {
    float min = 0;
    float greatest = x[group * 32];
    for (int j = 0; j < 32; ++j) {
      const float value = x[group * 32 + j];
      min = value < min ? value : min;
      greatest = value > greatest ? value : greatest;
    }
    const float range = greatest / static_cast<float>(max) - min / static_cast<float>(max);
    scales[group] = range > 0 ? range : 0;
    minimums[group] = -min;
    largest_scale = scales[group] > largest_scale ? scales[group] : largest_scale;
    largest_minimum = minimums[group] > largest_minimum ? minimums[group] : largest_minimum;
  }
  put_half(largest_scale / 63, block);
  put_half(largest_minimum / 63, block + 2);
  const float d = half_at(block);
  const float d_minimum = half_at(block + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum packed = {steps(scales[group], inverse(d), 0, 63),
                                    steps(minimums[group], inverse(d_minimum), 0, 63)};
    put_scale_and_minimum(packed, group, block + 4);
    const float per_unit = inverse(d * static_cast<float>(packed.scale));
    const float minimum = d_minimum * static_cast<float>(packed.minimum);
    for (int j = 0; j < 32; ++j) {
      const int q = steps(x[group * 32 + j] + minimum, per_unit, 0, max);
      std::uint8_t& byte = low[group / 2 * 32 + j];
      byte = static_cast<std::uint8_t>(byte | (q & 15) << group % 2 * 4);
      if (fifth != nullptr) fifth[j] = static_cast<std::uint8_t>(fifth[j] | q >> 4 << group);
    }
  }
}

void quantize_q4_k(const float* x, std::uint8_t* block) { quantize_with_minimums(x, block, nullptr, block + 16); }
void quantize_q5_k(const float* x, std::uint8_t* block) { quantize_with_minimums(x, block, block + 16, block + 48); }

void quantize_q6_k(const float* x, std::uint8_t* block) {
  float scales[16];  // signed: a group's largest value becomes -32 steps
  float largest_scale = 0;
  for (int group = 0; group < 16; ++group) {
    float largest = 0;
    for (int j = 0; j < 16; ++j) {
      const float value = x[group * 16 + j];
      largest = magnitude(value) > magnitude(largest) ? value : largest;
    }
    scales[group] = largest / -32;
    largest_scale = magnitude(scales[group]) > largest_scale ? magnitude(scales[group]) : largest_scale;
  }
  put_half(largest_scale / 127, block + q6_d);
  const float d = half_at(block + q6_d);
  for (int i = 0; i < 256; ++i) {
    const int scale = steps(scales[i / 16], inverse(d), -128, 127);
    block[q6_scales + i / 16] = static_cast<std::uint8_t>(scale);
    const int q = steps(x[i], inverse(d * static_cast<float>(scale)), -32, 31) + 32;
    const PlaceInQ6 at = place_in_q6(i);
    block[at.low] = static_cast<std::uint8_t>(block[at.low] | (q & 15) << at.low_shift);
    block[at.high] = static_cast<std::uint8_t>(block[at.high] | q >> 4 << at.high_shift);
  }
}

template <class Widen>
void dequantize_blocks(Format format, Bytes row, int inputs, float* to, Widen widen) {
  const FormatTraits& block = traits(format);
  for (int i = 0; i < inputs; i += block.block_inputs, row += block.block_bytes) widen(row, to + i);
}

template <class Narrow>
void quantize_blocks(Format format, const float* row, int inputs, std::uint8_t* to, Narrow narrow) {
  const FormatTraits& block = traits(format);
  std::memset(to, 0, row_bytes(format, inputs));
  for (int i = 0; i < inputs; i += block.block_inputs, to += block.block_bytes) narrow(row + i, to);
}

/// Whether any word has all bits of `exponent` set, as only infinities and NaNs have. Without branches in the loop, so
/// that the compiler vectorizes it.
template <class Word>
bool any_not_finite(Bytes at, std::size_t count, Word exponent) {
  Word found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, at + i * sizeof(Word), sizeof(Word));
    found |= static_cast<Word>((word & exponent) == exponent);
  }
  return found != 0;
}

template <class Word>
std::size_t first_word_not_finite(Bytes at, std::size_t count, Word exponent) {
  constexpr std::size_t many = 1 << 14;
  for (std::size_t begin = 0; begin < count; begin += many) {
    const std::size_t size = count - begin < many ? count - begin : many;
    if (!any_not_finite(at + begin * sizeof(Word), size, exponent)) continue;
    for (std::size_t i = begin; i < begin + size; ++i) {
      if (any_not_finite(at + i * sizeof(Word), 1, exponent)) return i;
    }
  }
  return count;
}

constexpr std::uint32_t f32_exponent = 0x7f800000u;
constexpr std::uint16_t f16_exponent = 0x7c00u;
constexpr std::uint16_t bf16_exponent = 0x7f80u;

/// Whether the f16 scales of a quantization block are finite.
bool is_finite(Format format, Bytes block) {
  const auto finite = [](Bytes at) { return (word_at(at) & f16_exponent) != f16_exponent; };
  if (format == Format::q6_k) return finite(block + q6_d);
  return finite(block) && (format == Format::q8_0 || format == Format::q4_0 || finite(block + 2));
}

}  // namespace

void dequantize_row(Format format, const void* row, int inputs, float* to) noexcept {
  const auto* const bytes = static_cast<Bytes>(row);
  switch (format) {
    case Format::f32: std::memcpy(to, row, row_bytes(format, inputs)); return;
    case Format::f16:
      for (int i = 0; i < inputs; ++i) to[i] = half_at(bytes + 2 * static_cast<std::ptrdiff_t>(i));
      return;
    case Format::bf16:
      for (int i = 0; i < inputs; ++i) to[i] = bf16_to_f32(word_at(bytes + 2 * static_cast<std::ptrdiff_t>(i)));
      return;
    case Format::q8_0: return dequantize_blocks(format, bytes, inputs, to, dequantize_q8_0);
    case Format::q4_0: return dequantize_blocks(format, bytes, inputs, to, dequantize_q4_0);
    case Format::q4_k: return dequantize_blocks(format, bytes, inputs, to, dequantize_q4_k);
    case Format::q5_k: return dequantize_blocks(format, bytes, inputs, to, dequantize_q5_k);
    case Format::q6_k: return dequantize_blocks(format, bytes, inputs, to, dequantize_q6_k);
  }
}

void quantize_row(Format format, const float* row, int inputs, void* to) noexcept {
  auto* const bytes = static_cast<std::uint8_t*>(to);
  switch (format) {
    case Format::f32: std::memcpy(to, row, row_bytes(format, inputs)); return;
    case Format::f16:
      for (int i = 0; i < inputs; ++i) put_half(row[i], bytes + 2 * static_cast<std::ptrdiff_t>(i));
      return;
    case Format::bf16:
      for (int i = 0; i < inputs; ++i) {
        const std::uint16_t brain = f32_to_bf16(row[i]);
        std::memcpy(bytes + 2 * static_cast<std::ptrdiff_t>(i), &brain, 2);
      }
      return;
    case Format::q8_0: return quantize_blocks(format, row, inputs, bytes, quantize_q8_0);
    case Format::q4_0: return quantize_blocks(format, row, inputs, bytes, quantize_q4_0);
    case Format::q4_k: return quantize_blocks(format, row, inputs, bytes, quantize_q4_k);
    case Format::q5_k: return quantize_blocks(format, row, inputs, bytes, quantize_q5_k);
    case Format::q6_k: return quantize_blocks(format, row, inputs, bytes, quantize_q6_k);
  }
}

std::size_t first_not_finite(Format format, const void* values, std::size_t count) noexcept {
  const auto* at = static_cast<Bytes>(values);
  if (format == Format::f32) return first_word_not_finite(at, count, f32_exponent);
  if (format == Format::f16) return first_word_not_finite(at, count, f16_exponent);
  if (format == Format::bf16) return first_word_not_finite(at, count, bf16_exponent);
  const FormatTraits& block = traits(format);
  for (std::size_t i = 0; i < count; i += static_cast<std::size_t>(block.block_inputs), at += block.block_bytes) {
    if (!is_finite(format, at)) return i;
  }
  return count;
}

}  // namespace draftproof
