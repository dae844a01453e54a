// SPDX-License-Identifier: MIT
// Deterministic damage to valid bytes: equal random numbers give equal damage.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>

#include "ref/base/error.h"

namespace draftproof {

class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) { below(1); }

  std::uint64_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    const std::uint64_t mixed = state_ ^ state_ >> 33;
    return mixed * 0xff51afd7ed558ccdu ^ mixed >> 29;
  }
  std::size_t below(std::size_t end) { return end == 0 ? 0 : next() % end; }

 private:
  std::uint64_t state_;
};

/// Most damage is applied to the headers.
inline std::size_t place_in(const std::string& bytes, Numbers& numbers) {
  const std::size_t near = std::min<std::size_t>(bytes.size(), std::size_t{16} << numbers.below(12));
  return numbers.below(numbers.below(8) == 0 ? bytes.size() : near);
}

inline void damage(std::string& bytes, const std::string& other, Numbers& numbers) {
  if (bytes.empty()) return;
  const std::size_t at = place_in(bytes, numbers);
  switch (numbers.below(7)) {
    case 0: bytes[at] = static_cast<char>(bytes[at] ^ 1 << numbers.below(8)); return;
    case 1: bytes[at] = static_cast<char>(numbers.next()); return;
    case 2: bytes.resize(at); return;
    case 3: {  // an extreme number
      constexpr std::uint64_t extremes[] = {0,          1,          0x7F,       0xFF,       0x7FFF,
                                            0xFFFF,     0x7FFFFFFF, 0xFFFFFFFF, 1ULL << 32, 1ULL << 62,
                                            1ULL << 63, ~0ULL,      ~0ULL >> 1, ~31ULL,     ~0ULL - 7};
      const std::uint64_t number = extremes[numbers.below(std::size(extremes))] + numbers.below(3) - 1;
      const std::size_t size = std::min(std::size_t{1} << numbers.below(4), bytes.size() - at);
      std::memcpy(bytes.data() + at, &number, size);
      return;
    }
    case 4: {  // a part of another file overwrites a part of this one
      const std::size_t from = place_in(other, numbers);
      const std::size_t size = std::min({numbers.below(64), other.size() - from, bytes.size() - at});
      bytes.replace(at, size, other, from, size);
      return;
    }
    case 5: bytes.erase(at, 1 + numbers.below(16)); return;
    default: bytes.insert(at, bytes.substr(place_in(bytes, numbers), 1 + numbers.below(64))); return;
  }
}

/// Accepts an Error as an outcome; other exceptions reach the caller.
template <class Action>
bool accepted(const Action& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    if (*error.what() == '\0') throw std::runtime_error("an Error without a sentence");
    return false;
  }
}

}  // namespace draftproof
