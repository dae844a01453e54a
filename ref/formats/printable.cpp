// SPDX-License-Identifier: MIT
#include "ref/formats/printable.h"

namespace draftproof {

std::string printable(std::string_view text, std::size_t bytes_max) {
  const bool cut = text.size() > bytes_max;
  if (cut) {
    std::size_t end = bytes_max;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F) {
      result += c;
    } else {
      constexpr char digits[] = "0123456789abcdef";
      result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return cut ? result + "..." : result;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

}  // namespace draftproof
