// SPDX-License-Identifier: MIT
// Two files as one input: the length of the first in four bytes, the first, the second.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace draftproof::fuzz {

inline std::string joined(const std::string& one, const std::string& other) {
  const auto size = static_cast<std::uint32_t>(one.size());
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + one + other;
}

/// Of any input.
inline std::pair<std::string, std::string> parted(const std::string& input) {
  std::uint32_t size = 0;
  if (input.size() < sizeof size) return {"", input};
  std::memcpy(&size, input.data(), sizeof size);
  const std::size_t first = std::min<std::size_t>(size, input.size() - sizeof size);
  return {input.substr(sizeof size, first), input.substr(sizeof size + first)};
}

}  // namespace draftproof::fuzz
