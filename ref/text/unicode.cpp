// SPDX-License-Identifier: MIT
#include "ref/text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>

#include "ref/base/error.h"

namespace draftproof::unicode {

namespace {

void check(UErrorCode status) {
  if (U_FAILURE(status)) throw Error(std::string("ICU cannot normalize to NFC: ") + u_errorName(status));
}

icu::UnicodeSet unicode_9() {
  UErrorCode status = U_ZERO_ERROR;
  icu::UnicodeSet characters(u"[:age=9.0:]", status);
  check(status);
  characters.freeze();
  return characters;
}

const icu::Normalizer2& composition() {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* newest = icu::Normalizer2::getNFCInstance(status);
  check(status);
  return *newest;
}

}  // namespace

std::string nfc(std::string_view text) {
  static const icu::UnicodeSet characters = unicode_9();
  static const icu::FilteredNormalizer2 normalizer(composition(), characters);
  UErrorCode status = U_ZERO_ERROR;
  std::string composed;
  icu::StringByteSink<std::string> sink(&composed);
  normalizer.normalizeUTF8(0, {text.data(), static_cast<std::int32_t>(text.size())}, sink, nullptr, status);
  check(status);
  return composed;
}

bool is_space(char32_t character) { return u_isUWhiteSpace(static_cast<UChar32>(character)); }

bool is_word(char32_t character) {
  const auto code_point = static_cast<UChar32>(character);
  constexpr std::uint32_t categories = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_isUAlphabetic(code_point) || (U_GET_GC_MASK(code_point) & categories) != 0 ||
         u_hasBinaryProperty(code_point, UCHAR_JOIN_CONTROL);
}

}  // namespace draftproof::unicode
