// SPDX-License-Identifier: MIT
// Python's operations on strings, for texts with marks. Positions and lengths of arguments and results are counted in
// characters unless bytes are said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ref/chat/jinja_value.h"
#include "ref/chat/marked_text.h"

namespace draftproof::jinja {

/// Return how many bytes the white space at the front has, and how many the text has without that at its end.
std::size_t trimmed_begin(std::string_view text);
std::size_t trimmed_end(std::string_view text);

enum class Side { left, right, both };
/// Removes white space, or the characters of `characters`.
MarkedText stripped(const MarkedText& text, std::optional<std::string_view> characters, Side side);

std::int64_t length(std::string_view text);
/// The characters at `indexes`, which exist, in that order.
MarkedText characters_at(const MarkedText& text, const std::vector<std::size_t>& indexes);

enum class Letters { upper, lower, capitalized, title };
MarkedText in_letters(const MarkedText& text, Letters letters);
/// Jinja's filter `title`: words begin after white space, hyphens and opening brackets.
MarkedText with_capital_words(const MarkedText& text);

/// As HTML.
MarkedText escaped(const MarkedText& text);

/// Replaces at most `count` of them; -1: all. An empty `what` is found before every character and at the end.
MarkedText replaced(const MarkedText& text, std::string_view what, const MarkedText& with, std::int64_t count,
                    Budget& budget);

/// Splits at most `count` times; -1: everywhere. `at` is not empty; nothing: runs of white space.
std::vector<MarkedText> split(const MarkedText& text, std::optional<std::string_view> at, std::int64_t count,
                              Budget& budget);
std::vector<MarkedText> split_from_right(const MarkedText& text, std::optional<std::string_view> at, std::int64_t count,
                                         Budget& budget);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends, Budget& budget);

/// Returns where `what` is found, in characters; -1 when it is not.
std::int64_t find_text(std::string_view text, std::string_view what, bool from_right);
std::int64_t count_text(std::string_view text, std::string_view what);

}  // namespace draftproof::jinja
