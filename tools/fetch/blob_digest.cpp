// SPDX-License-Identifier: MIT
#include "tools/fetch/blob_digest.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

namespace draftproof {

namespace {

void fold(std::array<std::uint32_t, 5>& state, const unsigned char* block) noexcept {
  std::uint32_t w[80];
  for (int i = 0; i < 16; ++i) w[i] = sha_word(block, i);
  for (int i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state;
  for (int i = 0; i < 80; ++i) {
    const std::uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                                : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                                : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                         : (b ^ c ^ d) + 0xca62c1d6;
    const std::uint32_t next = std::rotl(a, 5) + mixed + e + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  const std::uint32_t sums[5] = {a, b, c, d, e};
  for (std::size_t i = 0; i < 5; ++i) state[i] += sums[i];
}

}  // namespace

Sha1::Sha1() noexcept : Sha({0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}, fold) {}

BlobDigest::BlobDigest(std::string stated, std::uint64_t size) : stated_(std::move(stated)) {
  if (!of_lfs()) sha1_.add(fmt::format("blob {}{}", size, '\0'));
}

void BlobDigest::add(std::string_view bytes) noexcept {
  if (of_lfs()) sha256_.add(bytes);
  else sha1_.add(bytes);
}

}  // namespace draftproof
