// SPDX-License-Identifier: MIT
// Unicode functions beyond UTF-8. ICU is hidden behind this header.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace draftproof::unicode {

enum class Form { nfc, nfd, nfkc, nfkd };

/// Returns `text`, UTF-8 of at most 2^31 - 1 bytes, in a normalization form. Only characters of Unicode 9 are
/// normalized, as in the reference implementation, because models were trained on its output.
std::string normalized(Form form, std::string_view text);

/// Returns `text` in lower case, each character by itself.
std::string lower_case(std::string_view text);

/// Return what a character becomes in upper case, in lower case, and as the first one of a word: one to three.
std::string upper_case(char32_t character);
std::string lower_case(char32_t character);
std::string title_case(char32_t character);
/// Whether the character has upper or lower case.
bool is_cased(char32_t character);
/// Whether Python prints the character as it is.
bool is_printable(char32_t character);

/// Returns the extended grapheme clusters of `text` (UTF-8), in order.
std::vector<std::string_view> graphemes(std::string_view text);

bool is_space(char32_t character);  // White_Space
bool is_word(char32_t character);   // \w of Rust's regular expressions (UTS 18, annex C)
bool is_mark(char32_t character);   // of Unicode 9, as normalized() and for the same reason

/// Returns what is punctuation in Unicode 8, as ranges of a character class in regular expressions: what the reference
/// implementation's Punctuation takes for it beside symbols of ASCII.
std::string old_punctuation();

}  // namespace draftproof::unicode
