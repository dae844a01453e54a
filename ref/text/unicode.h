// SPDX-License-Identifier: MIT
// What we ask of Unicode beyond UTF-8. ICU stays behind this header.
#pragma once

#include <string>
#include <string_view>

namespace draftproof::unicode {

/// Canonical composition of `text`, which is UTF-8 of at most 2^31 - 1 bytes. Knows the characters of Unicode 9 and
/// leaves later ones alone: so does the reference implementation, and models have learnt the texts it makes.
std::string nfc(std::string_view text);

bool is_space(char32_t character);  // White_Space
bool is_word(char32_t character);   // what \w means to Rust's regular expressions (UTS 18, annex C)

}  // namespace draftproof::unicode
