// SPDX-License-Identifier: MIT
#include "ref/text/token_decoder.h"

#include <charconv>

#include "ref/text/byte_alphabet.h"

namespace draftproof {

std::string TokenDecoder::bytes_of(std::string_view entry) const {
  std::string bytes(entry);
  for (const Step& step : steps_) bytes = step(bytes);
  return bytes;
}

std::string fallback_entry(unsigned char byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
}

std::optional<unsigned char> byte_of_fallback_entry(std::string_view entry) {
  if (entry.size() != 6 || !entry.starts_with("<0x") || entry.back() != '>') return std::nullopt;
  unsigned char byte = 0;
  const char* const end = entry.data() + 5;
  if (std::from_chars(entry.data() + 3, end, byte, 16).ptr != end) return std::nullopt;
  return byte;
}

namespace token_decoders {

TokenDecoder::Step byte_level() {
  return [](std::string_view entry) { return byte_alphabet::unspell(entry).value_or(std::string(entry)); };
}

TokenDecoder::Step byte_fallback() {
  return [](std::string_view entry) {
    const auto byte = byte_of_fallback_entry(entry);
    return byte ? std::string(1, static_cast<char>(*byte)) : std::string(entry);
  };
}

TokenDecoder::Step replace(const std::string& what, const std::string& with) {
  return [what, with](std::string_view entry) {
    std::string replaced(entry);
    for (std::size_t at = replaced.find(what); at != std::string::npos; at = replaced.find(what, at + with.size())) {
      replaced.replace(at, what.size(), with);
    }
    return replaced;
  };
}

TokenDecoder::Step strip(const std::string& character, std::size_t start, std::size_t stop) {
  return [character, start, stop](std::string_view entry) {
    for (std::size_t i = 0; i < start && entry.starts_with(character); ++i) entry.remove_prefix(character.size());
    for (std::size_t i = 0; i < stop && entry.ends_with(character); ++i) entry.remove_suffix(character.size());
    return std::string(entry);
  };
}

}  // namespace token_decoders

}  // namespace draftproof
