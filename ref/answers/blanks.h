// SPDX-License-Identifier: MIT
// Blanks, which models put around what they write as they like.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace draftproof {

inline constexpr std::string_view blanks = " \t\r\n";

inline bool is_blank(char c) { return blanks.find(c) != std::string_view::npos; }
/// Where something else than blanks comes, from `at` on; the end where nothing does.
inline std::size_t behind_blanks(std::string_view text, std::size_t at = 0) {
  return std::min(text.find_first_not_of(blanks, at), text.size());
}
/// The bytes of a text without the blanks at its end.
inline std::size_t without_blanks_behind(std::string_view text) { return text.find_last_not_of(blanks) + 1; }

}  // namespace draftproof
