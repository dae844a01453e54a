// SPDX-License-Identifier: MIT
#include "ref/grammar/character_ranges.h"

#include <algorithm>

namespace draftproof {

CharacterRanges normalized(CharacterRanges ranges) {
  std::ranges::sort(ranges);
  CharacterRanges joined;
  const auto add = [&](char32_t first, char32_t last) {
    if (first > last) return;
    if (!joined.empty() && first <= joined.back().second + 1)
      joined.back().second = std::max(joined.back().second, last);
    else joined.emplace_back(first, last);
  };
  constexpr char32_t before_surrogates = 0xD7FF;
  constexpr char32_t behind_surrogates = 0xE000;
  for (const auto& [first, last] : ranges) {
    if (first <= before_surrogates) add(first, std::min(last, before_surrogates));
    add(std::max(first, behind_surrogates), last);
  }
  return joined;
}

CharacterRanges complement(const CharacterRanges& ranges) {
  CharacterRanges others;
  char32_t next = 0;
  for (const auto& [first, last] : normalized(ranges)) {
    if (first > next) others.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= last_character) others.emplace_back(next, last_character);
  return normalized(std::move(others));
}

}  // namespace draftproof
