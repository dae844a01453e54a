// SPDX-License-Identifier: MIT
#include "oracle/report/markup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ref/base/utf8.h"

namespace draftproof {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

/// Code points without a shape of their own, or that change the shape of their neighbors, or that are no characters.
constexpr std::array<Range, 16> shapeless = {{
    {0x7F, 0xA0},         // delete, the second controls, the space that does not break
    {0xAD, 0xAD},         // a hyphen that is there only at the end of a line
    {0x61C, 0x61C},       // reverses what follows
    {0x180E, 0x180E},     // a vowel separator of no width
    {0x2000, 0x200F},     // spaces of other widths and of none, joiners, marks of direction
    {0x2028, 0x202F},     // ends of lines and paragraphs, embeddings and overrides of direction
    {0x205F, 0x206F},     // more spaces, invisible operators, isolates
    {0x3000, 0x3000},     // a wide space
    {0x3164, 0x3164},     // a filler
    {0xE000, 0xF8FF},     // whatever a font makes of it
    {0xFDD0, 0xFDEF},     // never characters
    {0xFE00, 0xFE0F},     // variants of the character before
    {0xFEFF, 0xFEFF},     // byte order mark
    {0xFFF0, 0xFFFB},     // annotations
    {0xFFFE, 0xFFFF},     // never characters
    {0xE0000, 0x10FFFF},  // tags, variants, private use
}};

bool has_shape(char32_t c) {
  if (c < 0x20) return c == '\t' || c == '\n';
  const bool last_of_plane = (c & 0xFFFE) == 0xFFFE;
  return !last_of_plane && std::none_of(shapeless.begin(), shapeless.end(),
                                        [&](const Range& range) { return range.first <= c && c <= range.last; });
}

/// Calls `plain` with each character that has a shape, escaped for a page, and `odd` with the others written out.
template <class Plain, class Odd>
void walk(std::string_view text, const Plain& plain, const Odd& odd) {
  for (std::size_t offset = 0; offset < text.size();) {
    const utf8::Character step = utf8::step(text, offset);
    const std::string_view bytes = text.substr(offset, step.length);
    if (step.status != utf8::Status::character) {
      for (const char byte : bytes) odd(fmt::format("\\x{:02x}", static_cast<unsigned char>(byte)));
    } else if (!has_shape(step.code_point)) {
      const auto code = static_cast<std::uint32_t>(step.code_point);
      odd(code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{{{:x}}}", code));
    } else {
      switch (step.code_point) {
        case '&': plain(offset, "&amp;"); break;
        case '<': plain(offset, "&lt;"); break;
        case '>': plain(offset, "&gt;"); break;
        case '"': plain(offset, "&quot;"); break;
        case '\'': plain(offset, "&#39;"); break;
        default: plain(offset, bytes);
      }
    }
    offset += step.length;
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  walk(
      text, [&](std::size_t, std::string_view character) { result += character; },
      [&](const std::string& code) { result += code; });
  return result;
}

std::string with_marks(std::string_view text) {
  std::string result;
  const auto mark = [&](std::string_view shape) { result += fmt::format("<span class=\"mark\">{}</span>", shape); };
  const auto blank = [&](std::size_t at) { return at >= text.size() || text[at] == ' ' || text[at] == '\n'; };
  walk(
      text,
      [&](std::size_t at, std::string_view character) {
        if (character == "\n") {
          mark("⏎");
          result += '\n';
        } else if (character == "\t") {
          mark("⇥");
        } else if (character == " " && (at == 0 || blank(at - 1) || blank(at + 1))) {
          mark("␣");
        } else {
          result += character;
        }
      },
      mark);
  return result;
}

}  // namespace draftproof
