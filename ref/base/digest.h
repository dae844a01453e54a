// SPDX-License-Identifier: MIT
// A 128-bit fingerprint of bytes (XXH3), to check that rows, caches and runs are equal to the last bit. Not
// cryptographic. Equal on every platform of one byte order; draftproof supports little-endian machines only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

namespace draftproof {

struct Fingerprint {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Fingerprint&) const = default;
  std::string hex() const;  // 32 lower-case digits
};

class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add_bytes(const void* data, std::size_t size);
  template <class T>
  void add(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>, "padding bytes would enter the digest");
    add_bytes(&value, sizeof value);
  }
  template <class T>
  void add(std::span<const T> values) {
    static_assert(std::is_arithmetic_v<T>, "padding bytes would enter the digest");
    add_bytes(values.data(), values.size_bytes());
  }
  Fingerprint value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the fingerprint of one row of floats.
Fingerprint digest_of(std::span<const float> row);

}  // namespace draftproof
