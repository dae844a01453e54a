// SPDX-License-Identifier: MIT
// From the regular expressions tokenizer files hold to the ones PCRE2 reads.
#pragma once

#include <string>
#include <string_view>

namespace draftproof {

/// `expression`, written for Oniguruma, in PCRE2's syntax with the same meaning. Throws Error, opened by `origin`, for
/// a construct whose meaning differs or that we never met in a tokenizer.
std::string translate_pattern(std::string_view expression, const std::string& origin);

}  // namespace draftproof
