// SPDX-License-Identifier: MIT
// Translates the regular expressions of tokenizer files to PCRE2 syntax.
#pragma once

#include <string>
#include <string_view>

namespace draftproof {

/// Translates `expression`, written for Oniguruma, to PCRE2 syntax with the same meaning. Throws Error, beginning with
/// `origin`, for a construct whose meaning differs or that is unknown in tokenizers.
std::string translate_pattern(std::string_view expression, const std::string& origin);

}  // namespace draftproof
