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
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool second_control = (at(i) == 0xC2 && at(i + 1) >= 0x80 && at(i + 1) < 0xA0) ||
                                (i > 0 && at(i - 1) == 0xC2 && at(i) >= 0x80 && at(i) < 0xA0);
    if (at(i) >= 0x20 && at(i) != 0x7F && !second_control) {
      result += text[i];
    } else {
      constexpr char digits[] = "0123456789abcdef";
      result += {'\\', 'x', digits[at(i) >> 4], digits[at(i) & 15]};
    }
  }
  return cut ? result + "..." : result;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

}  // namespace draftproof
