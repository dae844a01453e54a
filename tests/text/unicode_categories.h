// SPDX-License-Identifier: MIT
// What `tokenizers` says of every character: fixtures/external/unicode-categories.
#pragma once

#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "ref/base/utf8.h"
#include "ref/formats/json.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::test {

inline const Json& unicode_categories() {
  static const Json all = Json::read(fixtures() / "external" / "unicode-categories" / "categories.json");
  return all;
}

/// [character]: whether it is in this category.
inline std::vector<bool> characters_of(const std::string& category) {
  std::vector<bool> has(0x110000);
  std::istringstream ranges(unicode_categories().at(category).string());
  for (std::string range; ranges >> range;) {
    const std::size_t dash = range.find('-');
    const unsigned long last = std::stoul(range.substr(dash + 1), nullptr, 16);
    for (unsigned long i = std::stoul(range, nullptr, 16); i <= last; ++i) has[i] = true;
  }
  return has;
}

/// All characters, in order.
inline std::string every_character() {
  std::string text;
  for (char32_t character = 0; character < 0x110000; ++character) {
    if (character < 0xD800 || character > 0xDFFF) utf8::append(text, character);
  }
  return text;
}

}  // namespace draftproof::test
