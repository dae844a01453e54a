// SPDX-License-Identifier: MIT
#include "ref/text/charsmap.h"

#include "ref/base/error.h"
#include "ref/base/utf8.h"

namespace draftproof {
namespace {

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 4; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

bool begins_character(char byte) { return (byte & 0xC0) != 0x80; }

// A unit of the double array.
bool has_value(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& origin) : origin_(origin) {
  const std::uint32_t trie_bytes = bytes.size() < 4 ? 0 : number_at(bytes, 0);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > bytes.size() - 4) {
    throw Error(origin + ": the table of replaced characters does not begin with the size of its trie");
  }
  for (std::size_t at = 4; at < 4 + std::size_t{trie_bytes}; at += 4) units_.push_back(number_at(bytes, at));
  replacements_ = bytes.substr(4 + std::size_t{trie_bytes});
  if (replacements_.empty() || replacements_.back() != '\0' || !utf8::is_valid(replacements_)) {
    throw Error(origin + ": the replacements of characters are not UTF-8 that ends with a zero byte");
  }
}

std::string_view Charsmap::replacement_at(std::size_t offset) const {
  if (offset >= replacements_.size() || !begins_character(replacements_[offset])) {
    throw Error(origin_ + ": the table of replaced characters is damaged");
  }
  return replacements_.data() + offset;
}

std::optional<Charsmap::Match> Charsmap::match(std::string_view text, bool first_only) const {
  std::optional<Match> found;
  std::uint32_t node = offset_of(units_.front());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const bool ends = has_value(units_[node]) && (at + 1 == text.size() || begins_character(text[at + 1]));
    node ^= offset_of(units_[node]);
    if (!ends || node >= units_.size()) continue;
    found = {at + 1, replacement_at(value_of(units_[node]))};
    if (first_only) break;
  }
  return found;
}

}  // namespace draftproof
