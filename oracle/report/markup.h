// SPDX-License-Identifier: MIT
// Escapes text from outside (names, paths, tokens) for HTML, SVG and XML, and writes out every character that a page
// would hide. The result is well-formed UTF-8, whatever the bytes of the input.
#pragma once

#include <string>
#include <string_view>

namespace draftproof {

/// Escapes for elements and for quoted attributes. Bytes that are not UTF-8 and control characters are written as \x1b,
/// characters that are invisible or reverse the text around them as \u{202e}. Tabs and line feeds stay.
std::string escaped(std::string_view text);

/// Escapes as escaped() does, for elements of a page only, and also marks tabs, line feeds and spaces that could be
/// overlooked (first, last, next to another). Marks differ from text that looks like them by their class, "mark".
std::string with_marks(std::string_view text);

}  // namespace draftproof
