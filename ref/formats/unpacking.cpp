// SPDX-License-Identifier: MIT
// The layouts are facts from ggml-org/llama.cpp (MIT license): ggml/src/ggml-common.h and gguf-py/gguf/quants.py.
#include "ref/formats/unpacking.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ref/formats/gguf_grids.h"

namespace draftproof {
namespace {

using Bytes = const std::uint8_t*;

template <class Word>
Word word_at(Bytes at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

float half_at(Bytes at) { return f16_to_f32(word_at<std::uint16_t>(at)); }

int four_bits(Bytes at, int i) { return at[i / 2] >> i % 2 * 4 & 15; }

/// Value i of codes of two bits: each 32 bytes have four groups of 32 values, the first in the lowest bits.
int two_bits(Bytes codes, int i) { return codes[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3; }

/// Writes the vector of a word of a grid to q; bit j of `signs` makes number j negative.
template <int bits>
void put_vector(unsigned word, const std::int8_t* numbers, unsigned signs, std::int8_t* q) {
  for (int j = 0; j < (bits == 2 ? 8 : 4); ++j) {
    const int number = numbers[word >> bits * j & ((1U << bits) - 1)];
    q[j] = static_cast<std::int8_t>((signs >> j & 1U) != 0 ? -number : number);
  }
}

/// A vector of iq1: the grid's numbers times 8, minus or plus 1.
void put_iq1(unsigned place, bool minus, std::int8_t* q) {
  put_vector<2>(iq1_grid[place], minus ? iq1_numbers : iq1_numbers + 4, 0, q);
}

/// Eight signs of which seven are stored: an even number of them is negative.
unsigned eight_signs(unsigned seven) { return seven | static_cast<unsigned>(std::popcount(seven) & 1) << 7; }

/// Scales of four bits for groups of 16, as (2 s + 1).
void read_odd_scales(Bytes scales, QuantizationBlock& block) {
  for (int group = 0; group < 16; ++group) block.s[group] = 2 * four_bits(scales, group) + 1;
}

}  // namespace

void unpack_block(const Unpacking& how, const std::uint8_t* from, std::uint8_t* to) {
  QuantizationBlock block = {};
  std::fill_n(block.s, 16, 1);
  how.read(from, block);
  if (!is_float(how.format)) {
    write_block(how.format, block, to);
    return;
  }
  float values[256];
  const int inputs = static_cast<int>(how.block_inputs);
  values_of_block(block, inputs, values);
  quantize_row(how.format, values, inputs, to);
}

/// f16 d; 32 bytes, the low eight bits of the vectors' places in the grid; 8 words of 16 bits, of 32 values each: four
/// times three high bits of a place, three bits s, and a sign: d * (2 s + 1) * (number + or - 1/8).
void read_iq1_s(Bytes from, QuantizationBlock& block) {
  block.d = half_at(from) / 8;
  for (int vector = 0; vector < 32; ++vector) {
    const unsigned high = word_at<std::uint16_t>(from + 34 + vector / 4 * 2);
    block.s[vector / 2] = static_cast<int>(2 * (high >> 12 & 7U) + 1);
    const unsigned place = from[2 + vector] | (high >> vector % 4 * 3 & 7U) << 8;
    put_iq1(place, (high & 0x8000U) != 0, block.q + 8 * vector);
  }
}

/// 32 bytes of low eight bits of places; 16 bytes, four bits for each vector: three high bits of its place, and the
/// sign of what is added to it; 4 words of 16 bits: four times three bits s, of groups of 16, and four bits of an f16
/// d. The values are those of iq1_s.
void read_iq1_m(Bytes from, QuantizationBlock& block) {
  const auto scales = [&](int i) { return static_cast<unsigned>(word_at<std::uint16_t>(from + 48 + 2 * i)); };
  const unsigned d = scales(0) >> 12 | scales(1) >> 12 << 4 | scales(2) >> 12 << 8 | scales(3) >> 12 << 12;
  block.d = f16_to_f32(static_cast<std::uint16_t>(d)) / 8;
  for (int group = 0; group < 16; ++group) {
    block.s[group] = static_cast<int>(2 * (scales(group / 4) >> group % 4 * 3 & 7U) + 1);
  }
  for (int vector = 0; vector < 32; ++vector) {
    const auto high = static_cast<unsigned>(four_bits(from + 32, vector));
    put_iq1(from[vector] | (high & 7U) << 8, (high & 8U) != 0, block.q + 8 * vector);
  }
}

/// f16 d; for each 32 values four bytes, the places of four vectors in the grid, and a word of 32 bits: four times
/// seven signs, and four bits s: d * (s + 1/2) / 4 * number.
void read_iq2_xxs(Bytes from, QuantizationBlock& block) {
  block.d = half_at(from) / 8;
  for (int vector = 0; vector < 32; ++vector) {
    const Bytes at = from + 2 + vector / 4 * 8;
    const auto rest = word_at<std::uint32_t>(at + 4);
    block.s[vector / 2] = static_cast<int>(2 * (rest >> 28) + 1);
    const unsigned signs = eight_signs(rest >> vector % 4 * 7 & 127U);
    put_vector<2>(iq2_xxs_grid[at[vector % 4]], iq2_numbers, signs, block.q + 8 * vector);
  }
}

/// f16 d; 32 words of 16 bits: nine bits of a place and seven signs; 8 bytes of scales of four bits of groups of 16.
/// The values are those of iq2_xxs.
void read_iq2_xs(Bytes from, QuantizationBlock& block) {
  block.d = half_at(from) / 8;
  read_odd_scales(from + 66, block);
  for (int vector = 0; vector < 32; ++vector) {
    const unsigned word = word_at<std::uint16_t>(from + 2 + 2 * vector);
    put_vector<2>(iq2_xs_grid[word & 511U], iq2_numbers, eight_signs(word >> 9), block.q + 8 * vector);
  }
}

/// f16 d; 32 bytes of low eight bits of places; 32 bytes of signs; 8 bytes of high two bits of places; 8 bytes of
/// scales as iq2_xs. The values are those of iq2_xxs.
void read_iq2_s(Bytes from, QuantizationBlock& block) {
  block.d = half_at(from) / 8;
  read_odd_scales(from + 74, block);
  for (int vector = 0; vector < 32; ++vector) {
    const unsigned high = from[66 + vector / 4] >> vector % 4 * 2 & 3;
    put_vector<2>(iq2_s_grid[from[2 + vector] | high << 8], iq2_numbers, from[34 + vector], block.q + 8 * vector);
  }
}

/// f16 d; 64 bytes, the places of vectors of four values in the grid; 8 words of 32 bits as iq2_xxs: d * (s + 1/2) / 2
/// * number.
void read_iq3_xxs(Bytes from, QuantizationBlock& block) {
  block.d = half_at(from) / 4;
  for (int vector = 0; vector < 64; ++vector) {
    const auto rest = word_at<std::uint32_t>(from + 66 + vector / 8 * 4);
    block.s[vector / 4] = static_cast<int>(2 * (rest >> 28) + 1);
    const unsigned signs = eight_signs(rest >> vector / 2 % 4 * 7 & 127U) >> vector % 2 * 4;
    put_vector<3>(iq3_xxs_grid[from[2 + vector]], iq3_xxs_numbers, signs, block.q + 4 * vector);
  }
}

/// f16 d; 64 bytes of low eight bits of places; 8 bytes of ninth bits; 32 bytes of signs; 4 bytes of scales of four
/// bits of groups of 32: d * (2 s + 1) * number.
void read_iq3_s(Bytes from, QuantizationBlock& block) {
  block.d = half_at(from);
  for (int group = 0; group < 16; ++group) block.s[group] = 2 * four_bits(from + 106, group / 2) + 1;
  for (int vector = 0; vector < 64; ++vector) {
    const unsigned high = from[66 + vector / 8] >> vector % 8 & 1;
    const unsigned signs = static_cast<unsigned>(from[74 + vector / 2]) >> vector % 2 * 4;
    put_vector<3>(iq3_s_grid[from[2 + vector] | high << 8], iq3_s_numbers, signs, block.q + 4 * vector);
  }
}

/// Five digits of base three in a byte, as a fraction of 256, the first in front; 32 bytes of values 32 apart, 16 bytes
/// of values 16 apart, 4 bytes of four values 4 apart; f16 d: d * (digit - 1).
void read_tq1_0(Bytes from, QuantizationBlock& block) {
  block.d = half_at(from + 52);
  const auto digits = [](Bytes bytes, int count, int together, std::int8_t* q) {
    int power = 1;
    for (int digit = 0; digit < count; ++digit, power *= 3) {
      for (int j = 0; j < together; ++j) {
        q[digit * together + j] = static_cast<std::int8_t>(((bytes[j] * power & 255) * 3 >> 8) - 1);
      }
    }
  };
  digits(from, 5, 32, block.q);
  digits(from + 32, 5, 16, block.q + 160);
  digits(from + 48, 4, 4, block.q + 240);
}

/// 64 bytes of codes of two bits; f16 d: d * (q - 1).
void read_tq2_0(Bytes from, QuantizationBlock& block) {
  block.d = half_at(from + 64);
  for (int i = 0; i < 256; ++i) block.q[i] = static_cast<std::int8_t>(two_bits(from, i) - 1);
}

/// 64 values: four bytes, the scales of groups of 16 as unsigned floats of four bits of exponent and three of fraction
/// (0x7f is 0), half as large; 8 bytes of codes for each group.
void read_nvfp4(Bytes from, QuantizationBlock& block) {
  block.d = 0x1p-10F;
  for (int group = 0; group < 4; ++group) {
    const int exponent = from[group] >> 3 & 15;
    const int fraction = from[group] & 7;
    block.s[group] = from[group] == 0x7F ? 0 : exponent == 0 ? fraction : (8 + fraction) << (exponent - 1);
    const Bytes codes = from + 4 + 8 * group;
    for (int j = 0; j < 8; ++j) {
      block.q[16 * group + j] = fp4_numbers[codes[j] & 15];
      block.q[16 * group + j + 8] = fp4_numbers[codes[j] >> 4];
    }
  }
}

}  // namespace draftproof
