// SPDX-License-Identifier: MIT
// Makes names of external origin safe to print: one line, no control characters, limited length.
#pragma once

#include <string>
#include <string_view>

namespace draftproof {

/// Replaces control bytes and bytes that are not UTF-8 by \xNN, and both bytes of U+0080 to U+009F, which terminals
/// interpret, too. Shortens a text of more than `bytes_max` bytes by replacing its middle with "...", cut at
/// characters, because the two ends of a path or a message are the most informative. Printable text is returned
/// unchanged.
std::string printable(std::string_view text, std::size_t bytes_max = 120);
/// Returns printable() in single quotes.
std::string in_quotes(std::string_view text);

}  // namespace draftproof
