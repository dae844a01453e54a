// SPDX-License-Identifier: MIT
// Unicode functions beyond UTF-8. ICU is hidden behind this header.
#pragma once

#include <string>
#include <string_view>

namespace draftproof::unicode {

/// Returns the canonical composition (NFC) of `text`, UTF-8 of at most 2^31 - 1 bytes. Only characters of Unicode 9 are
/// normalized, as in the reference implementation, because models were trained on its output.
std::string nfc(std::string_view text);

bool is_space(char32_t character);  // White_Space
bool is_word(char32_t character);   // \w of Rust's regular expressions (UTS 18, annex C)

}  // namespace draftproof::unicode
