// SPDX-License-Identifier: MIT
// Sets of characters as ranges.
#pragma once

#include <utility>
#include <vector>

namespace draftproof {

/// Characters, first and last of each range.
using CharacterRanges = std::vector<std::pair<char32_t, char32_t>>;

constexpr char32_t last_character = 0x10FFFF;

/// The same characters but for surrogates, as ascending ranges that do not touch.
CharacterRanges normalized(CharacterRanges ranges);
/// All other characters, likewise.
CharacterRanges complement(const CharacterRanges& ranges);

}  // namespace draftproof
