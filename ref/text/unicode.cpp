// SPDX-License-Identifier: MIT
#include "ref/text/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>

#include <array>
#include <cstdio>
#include <memory>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/text/newer_characters.h"

namespace draftproof::unicode {

namespace {

void check(UErrorCode status) {
  if (U_FAILURE(status)) throw Error(std::string("ICU cannot normalize the text: ") + u_errorName(status));
}

icu::UnicodeSet set_of(const char16_t* pattern) {
  UErrorCode status = U_ZERO_ERROR;
  icu::UnicodeSet characters(pattern, status);
  check(status);
  characters.freeze();
  return characters;
}

const icu::Normalizer2& newest(Form form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case Form::nfc: found = icu::Normalizer2::getNFCInstance(status); break;
    case Form::nfd: found = icu::Normalizer2::getNFDInstance(status); break;
    case Form::nfkc: found = icu::Normalizer2::getNFKCInstance(status); break;
    case Form::nfkd: found = icu::Normalizer2::getNFKDInstance(status); break;
  }
  check(status);
  return *found;
}

/// Returns the next place after `begin` where a cluster ends for certain, which is quicker than to ask ICU: between two
/// characters of ASCII that are not a carriage return and a line feed.
std::size_t certain_break(std::string_view text, std::size_t begin) {
  const auto is_ascii = [&](std::size_t at) { return static_cast<unsigned char>(text[at]) < 0x80; };
  std::size_t at = begin + 1;
  while (at < text.size() && !(is_ascii(at - 1) && is_ascii(at) && text[at] != '\n')) ++at;
  return at;
}

void append_graphemes(std::string_view text, icu::BreakIterator& breaks, std::vector<std::string_view>& clusters) {
  UErrorCode status = U_ZERO_ERROR;
  UText* const opened = utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &status);
  check(status);
  const std::unique_ptr<UText, decltype(&utext_close)> closed_later(opened, &utext_close);
  breaks.setText(opened, status);
  check(status);
  for (std::int32_t begin = breaks.first(), end = breaks.next(); end != icu::BreakIterator::DONE;
       begin = end, end = breaks.next()) {
    clusters.push_back(text.substr(begin, end - begin));
  }
}

char32_t simple_lower_case(char32_t character) {
  switch (character) {  // of Unicode 16, which the ICU of Debian 12 does not know
    case 0x1C89: return 0x1C8A;
    case 0xA7CB: return 0x264;
    case 0xA7CC: return 0xA7CD;
    case 0xA7DA: return 0xA7DB;
    case 0xA7DC: return 0x19B;
    default: break;
  }
  if (character >= 0x10D50 && character <= 0x10D65) return character + 0x20;
  return static_cast<char32_t>(u_tolower(static_cast<UChar32>(character)));
}

}  // namespace

std::string normalized(Form form, std::string_view text) {
  static const icu::UnicodeSet characters = set_of(u"[:age=9.0:]");
  const icu::FilteredNormalizer2 normalizer(newest(form), characters);
  UErrorCode status = U_ZERO_ERROR;
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  normalizer.normalizeUTF8(0, {text.data(), static_cast<std::int32_t>(text.size())}, sink, nullptr, status);
  check(status);
  return result;
}

std::string lower_case(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const utf8::Character next = utf8::step(text, at);
    result += lower_case(next.code_point);
    at += next.length;
  }
  return result;
}

std::string lower_case(char32_t character) {
  constexpr char32_t capital_i_with_dot = 0x130;  // the one character that becomes two
  if (character == capital_i_with_dot) return "i\u0307";
  std::string result;
  utf8::append(result, simple_lower_case(character));
  return result;
}

std::string upper_case(char32_t character) {
  std::string result;
  icu::UnicodeString(static_cast<UChar32>(character)).toUpper(icu::Locale::getRoot()).toUTF8String(result);
  return result;
}

std::string title_case(char32_t character) {
  std::string result;
  icu::UnicodeString(static_cast<UChar32>(character)).toTitle(nullptr, icu::Locale::getRoot()).toUTF8String(result);
  return result;
}

bool is_cased(char32_t character) { return u_hasBinaryProperty(static_cast<UChar32>(character), UCHAR_CASED); }

bool is_printable(char32_t character) {
  constexpr std::uint32_t hidden = U_GC_C_MASK | U_GC_Z_MASK;
  return character == ' ' || (U_GET_GC_MASK(static_cast<UChar32>(character)) & hidden) == 0;
}

std::vector<std::string_view> graphemes(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  check(status);
  std::vector<std::string_view> clusters;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = certain_break(text, begin);
    const std::string_view part = text.substr(begin, end - begin);
    part.size() == 1 ? clusters.push_back(part) : append_graphemes(part, *breaks, clusters);
    begin = end;
  }
  return clusters;
}

bool is_space(char32_t character) { return u_isUWhiteSpace(static_cast<UChar32>(character)); }

bool is_word(char32_t character) {
  const auto code_point = static_cast<UChar32>(older_character(character));
  constexpr std::uint32_t categories = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_isUAlphabetic(code_point) || (U_GET_GC_MASK(code_point) & categories) != 0 ||
         u_hasBinaryProperty(code_point, UCHAR_JOIN_CONTROL);
}

bool is_mark(char32_t character) {
  // U+111C9 has become one since, U+1CF2 and U+1CF3 are none any more.
  static const icu::UnicodeSet marks = set_of(u"[[:M:]&[:age=9.0:]-[\\U000111C9]\\u1CF2\\u1CF3]");
  return marks.contains(static_cast<UChar32>(character)) != 0;
}

std::string old_punctuation() {
  // Two of them are other symbols and marks by now.
  const icu::UnicodeSet characters = set_of(u"[[[:P:]&[:age=8.0:]]\\u166D\\U000111C9]");
  std::string ranges;
  for (std::int32_t i = 0; i < characters.getRangeCount(); ++i) {
    std::array<char, 32> range{};
    std::snprintf(range.data(), range.size(), "\\x{%X}-\\x{%X}", static_cast<unsigned>(characters.getRangeStart(i)),
                  static_cast<unsigned>(characters.getRangeEnd(i)));
    ranges += range.data();
  }
  return ranges;
}

}  // namespace draftproof::unicode
