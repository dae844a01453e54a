// SPDX-License-Identifier: MIT
// Names that come from outside, made safe to print: one line, no control characters, no megabytes.
#pragma once

#include <string>
#include <string_view>

namespace draftproof {

/// Control bytes and what is not UTF-8 become \xNN, and so do both bytes of U+0080 to U+009F, which terminals obey,
/// too. Of more than `bytes_max` bytes the middle is left out and stands as "...": the two ends, cut at characters, say
/// more, of a path as of a sentence. What is printable already stays as it is.
std::string printable(std::string_view text, std::size_t bytes_max = 120);
/// printable() between single quotes.
std::string in_quotes(std::string_view text);

}  // namespace draftproof
