// SPDX-License-Identifier: MIT
// The digests by which Hugging Face names files: SHA-256 of large ones (Git LFS), and SHA-1 of a Git blob.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ref/base/sha256.h"

namespace draftproof {

/// SHA-1 (FIPS 180-4). It protects from nobody; Git names blobs by it.
class Sha1 : public Sha<5> {  // 40 digits
 public:
  Sha1() noexcept;
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
