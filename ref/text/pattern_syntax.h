// SPDX-License-Identifier: MIT
// Translates the regular expressions of tokenizer files to PCRE2 syntax.
#pragma once

#include <string>
#include <string_view>

namespace draftproof {

/// Translates `expression`, written for Oniguruma, to PCRE2 syntax with the same meaning. Throws Error, beginning with
/// `origin`, for a construct whose meaning differs or that is unknown in tokenizers.
std::string translate_pattern(std::string_view expression, const std::string& origin);

/// Whether a translated expression names characters, by themselves or in ranges, that with_older_characters() replaces
/// or puts in their place: then it cannot be matched with such a text.
bool names_replaced_characters(std::string_view translated);

}  // namespace draftproof
