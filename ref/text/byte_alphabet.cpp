// SPDX-License-Identifier: MIT
#include "ref/text/byte_alphabet.h"

#include <array>

#include "ref/base/utf8.h"

namespace draftproof::byte_alphabet {
namespace {

constexpr int character_count = 0x100 + 68;

struct AlphabetTables {
  std::array<std::string, 256> spelling;
  std::array<int, character_count> byte_of;  // by code point; -1: not of the alphabet
};

AlphabetTables make_tables() {
  AlphabetTables tables;
  tables.byte_of.fill(-1);
  char32_t hidden = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const char32_t code_point = printable ? static_cast<char32_t>(byte) : hidden++;
    utf8::append(tables.spelling[byte], code_point);
    tables.byte_of[code_point] = byte;
  }
  return tables;
}

const AlphabetTables& tables() {
  static const AlphabetTables made = make_tables();
  return made;
}

}  // namespace

const std::string& spelling(unsigned char byte) { return tables().spelling[byte]; }

std::string spell(std::string_view bytes) {
  std::string spelled;
  for (const char byte : bytes) spelled += spelling(static_cast<unsigned char>(byte));
  return spelled;
}

std::optional<std::string> unspell(std::string_view spelled) {
  std::string bytes;
  for (std::size_t offset = 0; offset < spelled.size();) {
    const utf8::Character next = utf8::step(spelled, offset);
    if (next.status != utf8::Status::character || next.code_point >= character_count) return std::nullopt;
    const int byte = tables().byte_of[next.code_point];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(static_cast<unsigned char>(byte));
    offset += next.length;
  }
  return bytes;
}

}  // namespace draftproof::byte_alphabet
