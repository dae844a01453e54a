// SPDX-License-Identifier: MIT
#include "ref/text/base64.h"

#include <cstdint>

namespace draftproof {

std::optional<std::string> base64_decoded(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(padding);
  std::string bytes;
  std::uint32_t bits = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t digit = digits.find(text[at]);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    const std::size_t filled = at % 4 * 2;  // bits that complete a byte come from the second digit on
    if (filled > 0) bytes += static_cast<char>(static_cast<unsigned char>(bits >> (6 - filled)));
  }
  return bytes;
}

}  // namespace draftproof
