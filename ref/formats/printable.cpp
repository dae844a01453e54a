// SPDX-License-Identifier: MIT
#include "ref/formats/printable.h"

#include "ref/base/utf8.h"

namespace draftproof {
namespace {

std::string escaped(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const utf8::Character step = utf8::step(text, at);
    const std::string_view bytes = text.substr(at, step.length);
    const char32_t c = step.code_point;
    if (step.status == utf8::Status::character && c >= 0x20 && (c < 0x7F || c > 0x9F)) {
      result += bytes;
    } else {
      for (const char byte : bytes) result += {'\\', 'x', digits[(byte >> 4) & 15], digits[byte & 15]};
    }
    at += step.length;
  }
  return result;
}

/// Returns `at`, or the start of the character that it lies in; `at` for bytes that are not UTF-8.
std::size_t boundary(std::string_view text, std::size_t at) {
  for (std::size_t back = 0; back < 4 && back <= at; ++back) {
    if ((static_cast<unsigned char>(text[at - back]) & 0xC0) != 0x80) return at - back;
  }
  return at;
}

}  // namespace

std::string printable(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return escaped(text);
  const std::size_t from = boundary(text, text.size() - bytes_max / 3);
  const std::size_t until = boundary(text, bytes_max - bytes_max / 3);
  return escaped(text.substr(0, until)) + "..." + escaped(text.substr(from));
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

}  // namespace draftproof
