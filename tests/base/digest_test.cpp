// SPDX-License-Identifier: MIT
#include "ref/base/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

namespace draftproof::digest_test {
namespace {

Fingerprint of_text(std::string_view text) {
  Digest digest;
  digest.add_bytes(text.data(), text.size());
  return digest.value();
}

TEST(Digest, IsXxh3Of128Bits) {
  EXPECT_EQ(of_text("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(of_text("a").hex(), "a96faf705af16834e6c632b61e964e1f");
}

TEST(Digest, PrintsAllThirtyTwoDigits) {
  EXPECT_EQ((Fingerprint{0x12, 0xAB}.hex()), "000000000000001200000000000000ab");
}

TEST(Digest, DoesNotDependOnHowTheBytesWereChunked) {
  std::vector<std::uint8_t> bytes(2000);  // beyond XXH3's internal block of 1024
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  Digest whole;
  whole.add(std::span<const std::uint8_t>(bytes));
  for (const std::size_t chunk : {1, 3, 64, 255, 256, 257, 1024, 1999}) {
    Digest parts;
    for (std::size_t i = 0; i < bytes.size(); i += chunk) {
      parts.add_bytes(bytes.data() + i, std::min(chunk, bytes.size() - i));
    }
    EXPECT_EQ(parts.value(), whole.value()) << "chunks of " << chunk;
  }
}

TEST(Digest, OfARowEqualsTheDigestOfItsBytes) {
  for (const std::size_t size : {0, 1, 3, 59, 60, 61, 300, 1000}) {
    std::vector<float> row(size);
    std::iota(row.begin(), row.end(), 0.5F);
    Digest digest;
    digest.add(std::span<const float>(row));
    EXPECT_EQ(digest_of(row), digest.value()) << size << " floats";
  }
}

TEST(Digest, CanBeReadInTheMiddleAndContinued) {
  Digest digest;
  digest.add(std::uint32_t{1});
  const Fingerprint first = digest.value();
  EXPECT_EQ(digest.value(), first);
  digest.add(std::uint32_t{2});
  EXPECT_NE(digest.value(), first);
}

TEST(Digest, DistinguishesZeroFromNegativeZero) {
  EXPECT_NE(digest_of(std::array{0.0F}), digest_of(std::array{-0.0F}));
}

TEST(Digest, DistinguishesNeighboringFloatsInAnyPlaceOfARow) {
  std::vector<float> row(200, 1.0F);
  const Fingerprint before = digest_of(row);
  for (float& value : row) {
    value = std::nextafter(1.0F, 2.0F);
    EXPECT_NE(digest_of(row), before);
    value = 1.0F;
  }
  EXPECT_EQ(digest_of(row), before);
}

TEST(Digest, DistinguishesRowsOfZerosOfDifferentLengths) {
  EXPECT_NE(digest_of(std::vector<float>(7)), digest_of(std::vector<float>(8)));
}

}  // namespace
}  // namespace draftproof::digest_test
