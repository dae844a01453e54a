// SPDX-License-Identifier: MIT
#include "ref/base/utf8.h"

namespace draftproof::utf8 {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

/// What the first byte of a character requires. The second byte's range is narrower after E0, ED, F0 and F4 (overlong
/// forms, surrogates, beyond U+10FFFF); later bytes are always 80..BF. Unicode standard, table 3-7.
struct Lead {
  std::size_t length;  // 0: no character starts with this byte
  unsigned char second_min;
  unsigned char second_max;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

/// Appends the finished part of `bytes`, as far as it ends within `limit`, to `text` and returns its length in bytes.
std::size_t append_finished(std::string& text, std::string_view bytes, std::size_t limit = std::string_view::npos) {
  std::size_t offset = 0;
  while (offset < bytes.size()) {
    const Character next = step(bytes, offset);
    if (next.status == Status::unfinished || offset + next.length > limit) break;
    text += next.status == Status::character ? bytes.substr(offset, next.length) : replacement;
    offset += next.length;
  }
  return offset;
}

}  // namespace

Character step(std::string_view bytes, std::size_t offset) {
  const auto byte_at = [&](std::size_t index) { return static_cast<unsigned char>(bytes[offset + index]); };
  const std::size_t available = bytes.size() - offset;
  const Lead lead = lead_of(byte_at(0));
  if (lead.length == 0) return {Status::broken, 1, 0};
  if (lead.length == 1) return {Status::character, 1, byte_at(0)};
  char32_t code_point = byte_at(0) & (0xFFu >> (lead.length + 1));
  for (std::size_t index = 1; index < lead.length; ++index) {
    if (index == available) return {Status::unfinished, index, 0};
    const unsigned char min = index == 1 ? lead.second_min : 0x80;
    const unsigned char max = index == 1 ? lead.second_max : 0xBF;
    if (byte_at(index) < min || byte_at(index) > max) return {Status::broken, index, 0};
    code_point = (code_point << 6) | (byte_at(index) & 0x3Fu);
  }
  return {Status::character, lead.length, code_point};
}

bool is_valid(std::string_view bytes) {
  for (std::size_t offset = 0; offset < bytes.size();) {
    const Character next = step(bytes, offset);
    if (next.status != Status::character) return false;
    offset += next.length;
  }
  return true;
}

void append(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::string take_finished(std::string& bytes, std::size_t limit) {
  std::string text;
  bytes.erase(0, append_finished(text, bytes, limit));
  return text;
}

std::string replace_broken(std::string_view bytes) {
  std::string text;
  if (append_finished(text, bytes) < bytes.size()) text += replacement;
  return text;
}

}  // namespace draftproof::utf8
