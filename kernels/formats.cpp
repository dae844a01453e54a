// SPDX-License-Identifier: MIT
// Each quantized format has one function that reads a quantization block and one that makes it.
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

/// Returns x without its fraction, clamped to [0, max]; 0 for a NaN.
int truncated(float x, int max) {
  if (!(x > 0)) return 0;
  return x >= static_cast<float>(max) ? max : static_cast<int>(x);
}

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

// Codes are read eight at a time: byte i of a word is that of value i.
using Eight = std::uint64_t;

constexpr Eight in_each_byte(int byte) { return Eight{0x0101010101010101u} * static_cast<Eight>(byte); }

Eight eight_at(const void* at) {
  Eight bytes;
  std::memcpy(&bytes, at, sizeof(bytes));
  return bytes;
}

/// Writes `count` values of `bits` bits, those from bit `shift` of each byte.
void read_codes(Bytes from, int shift, int bits, int count, std::int8_t* q) {
  const Eight mask = in_each_byte((1 << bits) - 1);
  for (int j = 0; j < count; j += 8) {
    const Eight codes = eight_at(from + j) >> shift & mask;
    std::memcpy(q + j, &codes, sizeof(codes));
  }
}

/// Adds bits `to` and above to 32 values: `bits` bits from bit `shift` of each byte.
void add_high_bits(Bytes from, int shift, int bits, int to, std::int8_t* q) {
  const Eight mask = in_each_byte((1 << bits) - 1);
  for (int j = 0; j < 32; j += 8) {
    const Eight codes = eight_at(q + j) | (eight_at(from + j) >> shift & mask) << to;
    std::memcpy(q + j, &codes, sizeof(codes));
  }
}

/// Adds the fifth bits of 32 values: bit j of four bytes is that of value j.
void add_fifth_bits(Bytes fifth, std::int8_t* q) {
  constexpr Eight bit_of_byte = 0x8040201008040201u;
  for (int i = 0; i < 4; ++i) {
    const Eight high = (in_each_byte(fifth[i]) & bit_of_byte) + in_each_byte(0x7f);  // bit 7 of byte j: that of value j
    const Eight codes = eight_at(q + 8 * i) | (high & in_each_byte(0x80)) >> 3;
    std::memcpy(q + 8 * i, &codes, sizeof(codes));
  }
}

/// Writes the four-bit codes of 32 values: the first sixteen are the low bits.
void read_fours(Bytes low, std::int8_t* q) {
  read_codes(low, 0, 4, 16, q);
  read_codes(low, 4, 4, 16, q + 16);
}

/// Writes 256 codes of two bits: each 32 bytes have four groups of 32 values, the first in the lowest bits.
void read_twos(Bytes codes, std::int8_t* q) {
  for (int group = 0; group < 8; ++group) {
    read_codes(codes + group / 4 * 32, group % 4 * 2, 2, 32, q + group * 32);
  }
}

/// Turns codes into the numbers that they stand for.
void subtract(int offset, int count, std::int8_t* q) {
  for (int j = 0; j < count; ++j) q[j] = static_cast<std::int8_t>(q[j] - offset);
}
void look_up(const std::int8_t* numbers, int count, std::int8_t* q) {
  for (int j = 0; j < count; ++j) q[j] = numbers[q[j]];
}

void put_four_bits(int code, int j, std::uint8_t* low) {
  std::uint8_t& byte = low[j % 16];
  byte = static_cast<std::uint8_t>(byte | code << j / 16 * 4);
}
void put_five_bits(int code, int j, std::uint8_t* fifth, std::uint8_t* low) {
  put_four_bits(code & 15, j, low);
  fifth[j / 8] = static_cast<std::uint8_t>(fifth[j / 8] | code >> 4 << j % 8);
}

// Of each format the numbers q, and, unless there is one scale and none is added, all else but d.

/// The f16 m of a block of 32, which is added to each of its values.
void read_added(Bytes from, QuantizationBlock& block) {
  block.dmin = -half_at(from + 2);
  block.m[0] = block.m[1] = 1;
}

void read_q8_0(Bytes from, std::int8_t* q) { std::memcpy(q, from + 2, 32); }
void read_q4_0(Bytes from, std::int8_t* q) {
  read_fours(from + 2, q);
  subtract(8, 32, q);
}
void read_q4_1(Bytes from, std::int8_t* q) { read_fours(from + 4, q); }
void read_q5_0(Bytes from, std::int8_t* q) {
  read_fours(from + 6, q);
  add_fifth_bits(from + 2, q);
  subtract(16, 32, q);
}
void read_q5_1(Bytes from, std::int8_t* q) {
  read_fours(from + 8, q);
  add_fifth_bits(from + 4, q);
}

void read_iq4_nl(Bytes from, std::int8_t* q) {
  read_fours(from + 2, q);
  look_up(iq4_numbers, 32, q);
}
void read_mxfp4(Bytes from, std::int8_t* q) {
  read_fours(from + 1, q);
  look_up(fp4_numbers, 32, q);
}

void put_two_bits(int code, int i, std::uint8_t* codes) {
  std::uint8_t& byte = codes[i / 128 * 32 + i % 32];
  byte = static_cast<std::uint8_t>(byte | code << i / 32 % 4 * 2);
}

void read_q2_k(Bytes from, std::int8_t* q) { read_twos(from + 16, q); }
void read_q2_k_scales(Bytes from, QuantizationBlock& block) {
  block.dmin = half_at(from + 82);
  for (int group = 0; group < 16; ++group) {
    block.s[group] = from[group] & 15;
    block.m[group] = from[group] >> 4;
  }
}

constexpr int q3_scales = 96;

void put_q3_scale(int scale, int group, std::uint8_t* block) {
  std::uint8_t& low = block[q3_scales + group % 8];
  std::uint8_t& high = block[q3_scales + 8 + group % 4];
  low = static_cast<std::uint8_t>(low | ((scale + 32) & 15) << group / 8 * 4);
  high = static_cast<std::uint8_t>(high | (scale + 32) >> 4 << group / 4 * 2);
}

void put_q3(int q, int i, std::uint8_t* block) {
  put_two_bits((q + 4) & 3, i, block + 32);
  block[i % 32] = static_cast<std::uint8_t>(block[i % 32] | (q + 4) >> 2 << i / 32);
}

void read_q3_k(Bytes from, std::int8_t* q) {
  read_twos(from + 32, q);
  for (int group = 0; group < 8; ++group) add_high_bits(from, group, 1, 2, q + group * 32);
  subtract(4, 256, q);
}
void read_q3_k_scales(Bytes from, QuantizationBlock& block) {
  const Bytes scales = from + q3_scales;
  for (int group = 0; group < 16; ++group) {
    const int low = scales[group % 8] >> group / 8 * 4 & 15;
    const int high = scales[8 + group % 4] >> group / 4 * 2 & 3;
    block.s[group] = (low | high << 4) - 32;
  }
}

/// Groups 2g and 2g + 1 of q4_k and q5_k are the low and high four bits of 32 bytes.
void read_q4_k(Bytes from, std::int8_t* q) {
  for (int group = 0; group < 8; ++group) {
    read_codes(from + 16 + group / 2 * 32, group % 2 * 4, 4, 32, q + group * 32);
  }
}
void read_q5_k(Bytes from, std::int8_t* q) {
  for (int group = 0; group < 8; ++group) {
    read_codes(from + 48 + group / 2 * 32, group % 2 * 4, 4, 32, q + group * 32);
    add_high_bits(from + 16, group, 1, 4, q + group * 32);
  }
}
void read_scales_and_minimums(Bytes from, QuantizationBlock& block) {
  block.dmin = half_at(from + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum packed = scale_and_minimum(from + 4, group);
    block.s[2 * group] = block.s[2 * group + 1] = packed.scale;
    block.m[2 * group] = block.m[2 * group + 1] = packed.minimum;
  }
}

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

void put_q6(int q, int i, std::uint8_t* block) {
  const PlaceInQ6 at = place_in_q6(i);
  block[at.low] = static_cast<std::uint8_t>(block[at.low] | ((q + 32) & 15) << at.low_shift);
  block[at.high] = static_cast<std::uint8_t>(block[at.high] | (q + 32) >> 4 << at.high_shift);
}

constexpr int q6_scales = 192;
constexpr int q6_d = traits(Format::q6_k).scale;

void read_q6_k(Bytes from, std::int8_t* q) {
  for (int i = 0; i < 256; i += 32) {
    const PlaceInQ6 at = place_in_q6(i);
    read_codes(from + at.low, at.low_shift, 4, 32, q + i);
    add_high_bits(from + at.high, at.high_shift, 2, 4, q + i);
  }
  subtract(32, 256, q);
}
void read_q6_k_scales(Bytes from, QuantizationBlock& block) {
  for (int j = 0; j < 16; ++j) block.s[j] = static_cast<std::int8_t>(from[q6_scales + j]);
}

/// The scales of iq4_xs, which are stored plus 32.
int iq4_xs_scale(Bytes block, int group) {
  return ((block[4 + group / 2] >> group % 2 * 4 & 15) | (word_at(block + 2) >> 2 * group & 3) << 4) - 32;
}
void put_iq4_xs_scale(int scale, int group, std::uint8_t* block) {
  const int code = scale + 32;
  block[4 + group / 2] = static_cast<std::uint8_t>(block[4 + group / 2] | (code & 15) << group % 2 * 4);
  block[2 + group / 4] = static_cast<std::uint8_t>(block[2 + group / 4] | code >> 4 << group % 4 * 2);
}

void read_iq4_xs(Bytes from, std::int8_t* q) {
  for (int group = 0; group < 8; ++group) read_fours(from + 8 + 16 * group, q + 32 * group);
  look_up(iq4_numbers, 256, q);
}
void read_iq4_xs_scales(Bytes from, QuantizationBlock& block) {
  for (int group = 0; group < 8; ++group) {
    block.s[2 * group] = block.s[2 * group + 1] = iq4_xs_scale(from, group);
  }
}

constexpr int iq_scales = 2;
constexpr int iq_codes = 18;

template <Format format>
void read_iq(Bytes from, std::int8_t* q) {
  for (int i = 0; i < 8; ++i) read_fours(from + iq_codes + 16 * i, q + 32 * i);
  look_up(traits(format).numbers, 256, q);
}
void read_iq_scales(Bytes from, QuantizationBlock& block) {
  for (int group = 0; group < 16; ++group) block.s[group] = static_cast<std::int8_t>(from[iq_scales + group]);
}

/// Returns the value of the largest magnitude, the first among equals.
float largest_of(const float* x, int count) {
  float largest = 0;
  for (int j = 0; j < count; ++j) largest = magnitude(x[j]) > magnitude(largest) ? x[j] : largest;
  return largest;
}

void quantize_q8_0(const float* x, std::uint8_t* block) {
  const float d = magnitude(largest_of(x, 32)) / 127;
  put_half(d, block);
  const float per_unit = inverse(d);
  for (int j = 0; j < 32; ++j) block[2 + j] = static_cast<std::uint8_t>(rounded(x[j] * per_unit));
}

/// Quantizes to codes with an offset: the value of the largest magnitude becomes `-offset` steps.
template <class Put>
void quantize_with_offset(const float* x, std::uint8_t* block, int offset, Put put) {
  const float d = largest_of(x, 32) / static_cast<float>(-offset);
  put_half(d, block);
  const float per_unit = inverse(d);
  const float half_up = static_cast<float>(offset) + 0.5f;
  for (int j = 0; j < 32; ++j) {
    put(truncated(x[j] * per_unit + half_up, 2 * offset - 1), j);
  }
}

/// Quantizes to codes that the smallest value is added to.
template <class Put>
void quantize_with_minimum(const float* x, std::uint8_t* block, int max, Put put) {
  float min = x[0];
  float greatest = x[0];
  for (int j = 1; j < 32; ++j) {
    min = x[j] < min ? x[j] : min;
    greatest = x[j] > greatest ? x[j] : greatest;
  }
  const float d = (greatest - min) / static_cast<float>(max);
  put_half(d, block);
  put_half(min, block + 2);
  const float per_unit = inverse(d);
  for (int j = 0; j < 32; ++j) put(truncated((x[j] - min) * per_unit + 0.5f, max), j);
}

void quantize_q4_0(const float* x, std::uint8_t* block) {
  quantize_with_offset(x, block, 8, [&](int code, int j) { put_four_bits(code, j, block + 2); });
}
void quantize_q4_1(const float* x, std::uint8_t* block) {
  quantize_with_minimum(x, block, 15, [&](int code, int j) { put_four_bits(code, j, block + 4); });
}
void quantize_q5_0(const float* x, std::uint8_t* block) {
  quantize_with_offset(x, block, 16, [&](int code, int j) { put_five_bits(code, j, block + 2, block + 6); });
}
void quantize_q5_1(const float* x, std::uint8_t* block) {
  quantize_with_minimum(x, block, 31, [&](int code, int j) { put_five_bits(code, j, block + 4, block + 8); });
}

/// Returns the code of the number nearest to x, the first among equals.
int nearest_code(const std::int8_t* numbers, float x) {
  int nearest = 0;
  for (int code = 1; code < 16; ++code) {
    const float here = magnitude(x - static_cast<float>(numbers[code]));
    if (here < magnitude(x - static_cast<float>(numbers[nearest]))) nearest = code;
  }
  return nearest;
}

void quantize_iq4_nl(const float* x, std::uint8_t* block) {
  const float d = largest_of(x, 32) / -127;
  put_half(d, block);
  const float per_unit = inverse(d);
  for (int j = 0; j < 32; ++j) put_four_bits(nearest_code(iq4_numbers, x[j] * per_unit), j, block + 2);
}

/// The largest value becomes 8 to 16 steps, of which 12 are the most.
void quantize_mxfp4(const float* x, std::uint8_t* block) {
  const std::uint32_t exponent = __builtin_bit_cast(std::uint32_t, magnitude(largest_of(x, 32))) >> 23;
  block[0] = static_cast<std::uint8_t>(exponent > 2 ? exponent - 2 : 0);
  const float per_unit = inverse(power_of_two(block[0]));
  for (int j = 0; j < 32; ++j) put_four_bits(nearest_code(fp4_numbers, x[j] * per_unit), j, block + 1);
}

void quantize_iq4_xs(const float* x, std::uint8_t* block) {
  float scales[8];  // signed: a group's largest value becomes -127 steps
  float largest_scale = 0;
  for (int group = 0; group < 8; ++group) {
    scales[group] = largest_of(x + group * 32, 32) / -127;
    largest_scale = magnitude(scales[group]) > largest_scale ? magnitude(scales[group]) : largest_scale;
  }
  put_half(largest_scale / 31, block);
  const float d = half_at(block);
  for (int group = 0; group < 8; ++group) {
    const int scale = steps(scales[group], inverse(d), -32, 31);
    put_iq4_xs_scale(scale, group, block);
    const float per_unit = inverse(d * static_cast<float>(scale));
    for (int j = 0; j < 32; ++j) {
      put_four_bits(nearest_code(iq4_numbers, x[group * 32 + j] * per_unit), j, block + 8 + 16 * group);
    }
  }
}

/// What `groups` groups of a block of 256 need as scales, for codes up to `max`, and as minimums.
template <int groups>
struct GroupRanges {
  float scales[groups];
  float minimums[groups];  // the distance of the group's smallest value below zero
  float largest_scale = 0;
  float largest_minimum = 0;

  GroupRanges(const float* x, int max) {
    constexpr int inputs = 256 / groups;
    for (int group = 0; group < groups; ++group) {
      float min = 0;
      float greatest = x[group * inputs];
      for (int j = 0; j < inputs; ++j) {
        const float value = x[group * inputs + j];
        min = value < min ? value : min;
        greatest = value > greatest ? value : greatest;
      }
      const float range = greatest / static_cast<float>(max) - min / static_cast<float>(max);
      scales[group] = range > 0 ? range : 0;
      minimums[group] = -min;
      largest_scale = scales[group] > largest_scale ? scales[group] : largest_scale;
      largest_minimum = minimums[group] > largest_minimum ? minimums[group] : largest_minimum;
    }
  }
};

/// Quantizes to q4_k, or to q5_k when `fifth` is not null.
void quantize_with_minimums(const float* x, std::uint8_t* block, std::uint8_t* fifth, std::uint8_t* low) {
  const int max = fifth != nullptr ? 31 : 15;
  const GroupRanges<8> ranges(x, max);
  put_half(ranges.largest_scale / 63, block);
  put_half(ranges.largest_minimum / 63, block + 2);
  const float d = half_at(block);
  const float d_minimum = half_at(block + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum packed = {steps(ranges.scales[group], inverse(d), 0, 63),
                                    steps(ranges.minimums[group], inverse(d_minimum), 0, 63)};
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
    scales[group] = largest_of(x + group * 16, 16) / -32;
    largest_scale = magnitude(scales[group]) > largest_scale ? magnitude(scales[group]) : largest_scale;
  }
  put_half(largest_scale / 127, block + q6_d);
  const float d = half_at(block + q6_d);
  for (int i = 0; i < 256; ++i) {
    const int scale = steps(scales[i / 16], inverse(d), -128, 127);
    block[q6_scales + i / 16] = static_cast<std::uint8_t>(scale);
    put_q6(steps(x[i], inverse(d * static_cast<float>(scale)), -32, 31), i, block);
  }
}

void quantize_q2_k(const float* x, std::uint8_t* block) {
  const GroupRanges<16> ranges(x, 3);
  put_half(ranges.largest_scale / 15, block + 80);
  put_half(ranges.largest_minimum / 15, block + 82);
  const float d = half_at(block + 80);
  const float d_minimum = half_at(block + 82);
  for (int group = 0; group < 16; ++group) {
    const int scale = steps(ranges.scales[group], inverse(d), 0, 15);
    const int minimum = steps(ranges.minimums[group], inverse(d_minimum), 0, 15);
    block[group] = static_cast<std::uint8_t>(scale | minimum << 4);
    const float per_unit = inverse(d * static_cast<float>(scale));
    for (int i = group * 16; i < group * 16 + 16; ++i) {
      put_two_bits(steps(x[i] + d_minimum * static_cast<float>(minimum), per_unit, 0, 3), i, block + 16);
    }
  }
}

void quantize_q3_k(const float* x, std::uint8_t* block) {
  float scales[16];  // signed: a group's largest value becomes -4 steps
  float largest_scale = 0;
  for (int group = 0; group < 16; ++group) {
    scales[group] = largest_of(x + group * 16, 16) / -4;
    largest_scale = magnitude(scales[group]) > largest_scale ? magnitude(scales[group]) : largest_scale;
  }
  std::uint8_t* const at = block + traits(Format::q3_k).scale;
  put_half(largest_scale / 31, at);
  const float d = half_at(at);
  for (int group = 0; group < 16; ++group) {
    const int scale = steps(scales[group], inverse(d), -32, 31);
    put_q3_scale(scale, group, block);
    const float per_unit = inverse(d * static_cast<float>(scale));
    for (int i = group * 16; i < group * 16 + 16; ++i) put_q3(steps(x[i], per_unit, -4, 3), i, block);
  }
}

template <Format format>
void quantize_iq(const float* x, std::uint8_t* block) {
  constexpr FormatTraits kind = traits(format);
  int max = 0;
  for (int code = 0; code < 16; ++code) max = kind.numbers[code] > max ? kind.numbers[code] : max;
  float scales[16];
  float largest_scale = 0;
  for (int group = 0; group < 16; ++group) {
    scales[group] = magnitude(largest_of(x + group * 16, 16)) / static_cast<float>(max);
    largest_scale = scales[group] > largest_scale ? scales[group] : largest_scale;
  }
  put_half(largest_scale / 127 / kind.unit, block);
  const float d = half_at(block) * kind.unit;
  for (int i = 0; i < 256; ++i) {
    const int scale = steps(scales[i / 16], inverse(d), 0, 127);
    block[iq_scales + i / 16] = static_cast<std::uint8_t>(scale);
    const int code = nearest_code(kind.numbers, x[i] * inverse(d * static_cast<float>(scale)));
    put_four_bits(code, i % 32, block + iq_codes + i / 32 * 16);
  }
}

/// How a quantized format is read, and made, in zeroed bytes.
struct BlockCodec {
  void (*read_numbers)(Bytes from, std::int8_t* q);
  void (*read_scales)(Bytes from, QuantizationBlock& block);  // but for d; nullptr: d alone
  void (*make)(const float* x, std::uint8_t* block);
};

constexpr BlockCodec codecs[formats] = {
    {},
    {},
    {},
    {read_q8_0, nullptr, quantize_q8_0},
    {read_q4_0, nullptr, quantize_q4_0},
    {read_q4_1, read_added, quantize_q4_1},
    {read_q5_0, nullptr, quantize_q5_0},
    {read_q5_1, read_added, quantize_q5_1},
    {read_iq4_nl, nullptr, quantize_iq4_nl},
    {read_q4_k, read_scales_and_minimums, quantize_q4_k},
    {read_q5_k, read_scales_and_minimums, quantize_q5_k},
    {read_q6_k, read_q6_k_scales, quantize_q6_k},
    {read_iq4_xs, read_iq4_xs_scales, quantize_iq4_xs},
    {read_mxfp4, nullptr, quantize_mxfp4},
    {read_q2_k, read_q2_k_scales, quantize_q2_k},
    {read_q3_k, read_q3_k_scales, quantize_q3_k},
    {read_iq<Format::iq1>, read_iq_scales, quantize_iq<Format::iq1>},
    {read_iq<Format::iq2>, read_iq_scales, quantize_iq<Format::iq2>},
    {read_iq<Format::iq3_xxs>, read_iq_scales, quantize_iq<Format::iq3_xxs>},
    {read_iq<Format::iq3_s>, read_iq_scales, quantize_iq<Format::iq3_s>},
};

const BlockCodec& codec(Format format) { return codecs[static_cast<int>(format)]; }

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

/// Whether the scales of a quantization block are finite, and so small, where they may be larger, that its values are.
bool is_finite(Format format, Bytes block) {
  const FormatTraits& places = traits(format);
  if (places.scales == 0) return block[places.scale] <= mxfp4_exponent_max;
  for (int i = 0; i < places.scales; ++i) {
    if ((word_at(block + places.scale + 2 * i) & f16_exponent) == f16_exponent) return false;
  }
  return true;
}

/// The inverse of the tables of numbers, [format][number + 128].
struct AllCodes {
  std::uint8_t of[formats][256] = {};
  constexpr AllCodes() {
    for (int format = 0; format < formats; ++format) {
      const std::int8_t* const numbers = format_traits[format].numbers;
      for (int code = 15; numbers != nullptr && code >= 0; --code) {
        of[format][numbers[code] + 128] = static_cast<std::uint8_t>(code);
      }
    }
  }
};
constexpr AllCodes all_codes;

}  // namespace

QuantizationBlock read_block(Format format, const void* block) noexcept {
  const auto* const from = static_cast<Bytes>(block);
  const FormatTraits& places = traits(format);
  QuantizationBlock numbers;  // of q only what a block has is written
  std::memset(&numbers, 0, offsetof(QuantizationBlock, q));
  if (places.block_inputs == 32) numbers.s[0] = numbers.s[1] = 1;
  numbers.d = places.scales == 0 ? power_of_two(from[places.scale]) : half_at(from + places.scale) * places.unit;
  if (codec(format).read_scales != nullptr) codec(format).read_scales(from, numbers);
  codec(format).read_numbers(from, numbers.q);
  return numbers;
}

void read_numbers(Format format, const void* block, std::int8_t* q) noexcept {
  codec(format).read_numbers(static_cast<Bytes>(block), q);
}

const std::uint8_t* codes_of_numbers(Format format) noexcept { return all_codes.of[static_cast<int>(format)]; }

void write_block(Format format, const QuantizationBlock& block, void* to) noexcept {
  auto* const bytes = static_cast<std::uint8_t*>(to);
  const FormatTraits& places = traits(format);
  const std::uint8_t* const code_of = codes_of_numbers(format) + 128;
  std::memset(bytes, 0, static_cast<std::size_t>(places.block_bytes));
  if (places.scales == 0) {
    bytes[places.scale] = exponent_of(block.d);
    for (int j = 0; j < 32; ++j) put_four_bits(code_of[block.q[j]], j, bytes + 1);
    return;
  }
  put_half(block.d / places.unit, bytes + places.scale);
  if (is_iq1_to_iq3(format)) {
    for (int j = 0; j < 16; ++j) bytes[iq_scales + j] = static_cast<std::uint8_t>(block.s[j]);
    for (int i = 0; i < 256; ++i) put_four_bits(code_of[block.q[i]], i % 32, bytes + iq_codes + i / 32 * 16);
    return;
  }
  if (format == Format::q3_k) {
    for (int i = 0; i < 256; ++i) put_q3(block.q[i], i, bytes);
    for (int j = 0; j < 16; ++j) put_q3_scale(block.s[j], j, bytes);
    return;
  }
  if (format == Format::q6_k) {
    for (int i = 0; i < 256; ++i) put_q6(block.q[i], i, bytes);
    for (int j = 0; j < 16; ++j) bytes[q6_scales + j] = static_cast<std::uint8_t>(block.s[j]);
    return;
  }
  std::uint8_t* const codes = bytes + 2 * places.scales;  // behind d and m
  if (places.has_minimums) put_half(-block.dmin, bytes + 2);
  for (int j = 0; j < 32; ++j) {
    const int code = block.q[j] + places.offset;
    if (format == Format::q8_0) codes[j] = static_cast<std::uint8_t>(code);
    else if (places.code_bits == 5) put_five_bits(code, j, codes, codes + 4);
    else put_four_bits(code, j, codes);
  }
}

void values_of_block(const QuantizationBlock& block, int inputs, float* to) noexcept {
  for (int k = 0; k < inputs; ++k) {
    const float scale = block.d * static_cast<float>(block.s[k / 16]);
    to[k] = scale * static_cast<float>(block.q[k]) - block.dmin * static_cast<float>(block.m[k / 16]);
  }
}

void dequantize_row(Format format, const void* row, int inputs, float* to) noexcept {
  const auto* bytes = static_cast<Bytes>(row);
  switch (format) {
    case Format::f32: std::memcpy(to, row, row_bytes(format, inputs)); return;
    case Format::f16:
      for (int i = 0; i < inputs; ++i) to[i] = half_at(bytes + 2 * static_cast<std::ptrdiff_t>(i));
      return;
    case Format::bf16:
      for (int i = 0; i < inputs; ++i) to[i] = bf16_to_f32(word_at(bytes + 2 * static_cast<std::ptrdiff_t>(i)));
      return;
    default: break;
  }
  const FormatTraits& block = traits(format);
  for (int i = 0; i < inputs; i += block.block_inputs, bytes += block.block_bytes) {
    values_of_block(read_block(format, bytes), block.block_inputs, to + i);
  }
}

void quantize_row(Format format, const float* row, int inputs, void* to) noexcept {
  auto* bytes = static_cast<std::uint8_t*>(to);
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
    default: break;
  }
  const FormatTraits& block = traits(format);
  std::memset(bytes, 0, row_bytes(format, inputs));
  for (int i = 0; i < inputs; i += block.block_inputs, bytes += block.block_bytes) codec(format).make(row + i, bytes);
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
