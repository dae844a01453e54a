// SPDX-License-Identifier: MIT
// Names that come out of files, made safe to print: no control characters, no megabytes.
#pragma once

#include <string>
#include <string_view>

namespace draftproof {

/// Control bytes become \xNN, and so do both bytes of U+0080 to U+009F, which terminals obey, too; past `bytes_max` the
/// text is cut at a UTF-8 boundary and ends in "...".
std::string printable(std::string_view text, std::size_t bytes_max = 120);
/// printable() between single quotes.
std::string in_quotes(std::string_view text);

}  // namespace draftproof
