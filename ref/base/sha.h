// SPDX-License-Identifier: MIT
// What SHA-1 and SHA-256 have in common (FIPS 180-4): blocks of 64 bytes that are folded into a state of words, the
// padding of the last one, and the digits.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace draftproof {

template <std::size_t words>
class Sha {
 public:
  void add(std::string_view bytes) noexcept {
    while (!bytes.empty()) {
      const std::size_t filled = size_ % pending_.size();
      const std::size_t taken = std::min(pending_.size() - filled, bytes.size());
      std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<std::ptrdiff_t>(filled));
      size_ += taken;
      if (filled + taken == pending_.size()) fold_(state_, pending_.data());
      bytes.remove_prefix(taken);
    }
  }

  /// Of the bytes so far, in lower-case digits; more may be added.
  std::string hex() const {
    Sha whole = *this;
    std::string end = "\x80";
    while ((size_ + end.size()) % pending_.size() != pending_.size() - sizeof size_) end += '\0';
    for (int shift = 56; shift >= 0; shift -= 8) end += static_cast<char>(size_ * 8 >> shift);
    whole.add(end);
    std::string text;
    for (const std::uint32_t word : whole.state_) {
      for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
    }
    return text;
  }

 protected:
  using State = std::array<std::uint32_t, words>;
  using Fold = void (*)(State& state, const unsigned char* block) noexcept;

  Sha(const State& start, Fold fold) noexcept : state_(start), fold_(fold) {}

 private:
  State state_;
  Fold fold_;
  std::array<unsigned char, 64> pending_ = {};
  std::uint64_t size_ = 0;  // in bytes
};

/// Word i of a block.
inline std::uint32_t sha_word(const unsigned char* block, int i) noexcept {
  const unsigned char* const at = block + 4 * i;
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
}

}  // namespace draftproof
