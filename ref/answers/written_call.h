// SPDX-License-Identifier: MIT
// One call of a tool, as a model writes it.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "ref/answers/answer_format.h"

namespace draftproof {

/// Whether names of tools have such characters.
bool is_of_name(char c);

/// Whether a text begins with something: no, with a part of it so far, or with all of it.
enum class Match { no, maybe, yes };

struct MarkMatch {
  Match match;
  std::size_t end = 0;  // of the mark in the text
};
/// What a mark has between its line ends.
MarkMatch match_part(std::string_view text, std::string_view part);
/// Blanks before the mark are passed.
MarkMatch match_mark(std::string_view text, std::string_view mark);

/// Tool and argument, of those that are strings; a value inside of an argument is named by the keys to it, with dots
/// between them, where each item of an array has the key `item`.
using TextArguments = std::set<std::pair<std::string, std::string>>;

struct WrittenCall {
  Match match = Match::maybe;
  std::string name = {};       // empty until it is certain
  std::string arguments = {};  // JSON; as far as it is certain
  std::size_t end = 0;         // of the call in the text, once it is whole
};

/// Reads the call that a text begins with, from `begin` to `end` of the format. Arguments are not checked: a model may
/// write what is no JSON.
WrittenCall read_call(const CallFormat& format, std::string_view text, const TextArguments& texts);

}  // namespace draftproof
