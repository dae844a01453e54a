// SPDX-License-Identifier: MIT
// Regular expressions ask for the categories of characters, and PCRE2 has those of the Unicode that it was made with:
// 14 on Debian 12. Tokens must not depend on that, so a text is matched with an older character in the place of each
// newer one. The categories are those of Unicode 16, as Hugging Face's `tokenizers` has them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace draftproof {

/// Returns `text` (UTF-8) with characters that Unicode has had since version 14 in the place of newer ones, each of the
/// same general category, of the script Han where that one is, and of as many bytes; nullopt: there are no newer ones.
std::optional<std::string> with_older_characters(std::string_view text);
/// The same of one character, which is itself where it is not newer.
char32_t older_character(char32_t character);
/// Whether one of these characters is newer, or in the place of newer ones.
bool is_replaced_among(char32_t first, char32_t last);

}  // namespace draftproof
