// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4), for hashes that users check with other tools. digest.h is many times faster and serves
// everything else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace draftproof {

class Sha256 {
 public:
  void add(std::string_view bytes) noexcept;
  std::string hex() const;  // of the bytes so far, 64 lower-case digits; more may be added

 private:
  void take_block(const unsigned char* block) noexcept;

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> pending_ = {};
  std::uint64_t size_ = 0;  // in bytes
};

}  // namespace draftproof
