// SPDX-License-Identifier: MIT
// Text from outside (names, paths, tokens), made safe to stand in HTML, SVG and XML and honest to read: whatever a page
// would hide is written out. Well-formed UTF-8 comes out, whatever bytes go in.
#pragma once

#include <string>
#include <string_view>

namespace draftproof {

/// For elements and for quoted attributes. What has no shape is written as what it is: bytes that are no UTF-8 and
/// controls as \x1b, characters that are invisible or turn the text around them as \u{202e}. Tabs and line feeds stay.
std::string escaped(std::string_view text);

/// As escaped(), for elements of a page only: tabs, line feeds and spaces that could be missed (first, last, beside
/// another) are marked too, and every mark is told apart from text that looks like it by its class, "mark".
std::string with_marks(std::string_view text);

}  // namespace draftproof
