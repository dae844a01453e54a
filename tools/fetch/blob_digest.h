// SPDX-License-Identifier: MIT
// The digests by which Hugging Face names files: SHA-256 of large ones (Git LFS), and SHA-1 of a Git blob.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "ref/base/sha256.h"

namespace draftproof {

/// SHA-1 (FIPS 180-4). It protects from nobody; Git names blobs by it.
class Sha1 {
 public:
  void add(std::string_view bytes) noexcept;
  std::string hex() const;  // of the bytes so far, 40 lower-case digits; more may be added

 private:
  void take_block(const unsigned char* block) noexcept;

  std::array<std::uint32_t, 5> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  std::array<unsigned char, 64> pending_ = {};
  std::uint64_t size_ = 0;  // in bytes
};

/// Computes the digest that is stated for a file, piece by piece.
class BlobDigest {
 public:
  /// `stated`: 64 digits of SHA-256, or 40 of a Git blob of so many bytes.
  BlobDigest(std::string stated, std::uint64_t size);

  void add(std::string_view bytes) noexcept;
  bool fits() const { return stated_ == (of_lfs() ? sha256_.hex() : sha1_.hex()); }

 private:
  bool of_lfs() const noexcept { return stated_.size() == 64; }

  std::string stated_;
  Sha256 sha256_;
  Sha1 sha1_;
};

}  // namespace draftproof
