// SPDX-License-Identifier: MIT
#include "tools/fetch/blob_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace draftproof {

void Sha1::take_block(const unsigned char* block) noexcept {
  std::uint32_t w[80];
  for (int i = 0; i < 16; ++i) {
    const unsigned char* const word = block + 4 * i;
    w[i] = std::uint32_t{word[0]} << 24 | std::uint32_t{word[1]} << 16 | std::uint32_t{word[2]} << 8 | word[3];
  }
  for (int i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state_;
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
  for (std::size_t i = 0; i < 5; ++i) state_[i] += sums[i];
}

void Sha1::add(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const std::size_t filled = size_ % 64;
    const std::size_t taken = std::min(64 - filled, bytes.size());
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<std::ptrdiff_t>(filled));
    size_ += taken;
    if (filled + taken == 64) take_block(pending_.data());
    bytes.remove_prefix(taken);
  }
}

std::string Sha1::hex() const {
  Sha1 ended = *this;
  std::string end = "\x80";
  while ((size_ + end.size()) % 64 != 56) end += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) end += static_cast<char>(size_ * 8 >> shift);
  ended.add(end);
  std::string digits;
  for (const std::uint32_t word : ended.state_) digits += fmt::format("{:08x}", word);
  return digits;
}

BlobDigest::BlobDigest(std::string stated, std::uint64_t size) : stated_(std::move(stated)) {
  if (!of_lfs()) sha1_.add(fmt::format("blob {}{}", size, '\0'));
}

void BlobDigest::add(std::string_view bytes) noexcept {
  if (of_lfs()) sha256_.add(bytes);
  else sha1_.add(bytes);
}

}  // namespace draftproof
