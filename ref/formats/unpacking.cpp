// SPDX-License-Identifier: MIT
#include "ref/formats/unpacking.h"

#include <cstring>

namespace draftproof {
namespace {

template <class Word>
Word word_at(const std::uint8_t* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

/// Returns the low four bits of value j of a block.
int low_bits(const std::uint8_t* low, int j) { return j < 16 ? low[j] & 15 : low[j - 16] >> 4; }

/// Returns value j with its fifth bit.
int five_bits(std::uint32_t fifth, const std::uint8_t* low, int j) {
  return low_bits(low, j) | static_cast<int>(fifth >> j & 1) << 4;
}

template <class Quant>
void put_floats(const std::uint8_t* from, std::uint8_t* to, Quant q) {
  const float d = f16_to_f32(word_at<std::uint16_t>(from));
  const float m = f16_to_f32(word_at<std::uint16_t>(from + 2));
  for (int j = 0; j < 32; ++j) {
    const float value = d * static_cast<float>(q(j)) + m;
    std::memcpy(to + static_cast<std::ptrdiff_t>(j) * 4, &value, 4);
  }
}

}  // namespace

void unpack_q5_0(const std::uint8_t* from, std::uint8_t* to) {
  const auto fifth = word_at<std::uint32_t>(from + 2);
  std::memcpy(to, from, 2);
  for (int j = 0; j < 32; ++j) to[2 + j] = static_cast<std::uint8_t>(five_bits(fifth, from + 6, j) - 16);
}

void unpack_q4_1(const std::uint8_t* from, std::uint8_t* to) {
  put_floats(from, to, [&](int j) { return low_bits(from + 4, j); });
}

void unpack_q5_1(const std::uint8_t* from, std::uint8_t* to) {
  const auto fifth = word_at<std::uint32_t>(from + 4);
  put_floats(from, to, [&](int j) { return five_bits(fifth, from + 8, j); });
}

}  // namespace draftproof
