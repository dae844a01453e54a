// SPDX-License-Identifier: MIT
#include "ref/grammar/language_rules.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "ref/grammar/character_ranges.h"
#include "ref/grammar/json_schema.h"

namespace draftproof {
namespace {

/// A character as it is in a class of GBNF.
std::string in_class(char32_t character) {
  constexpr const char* digits = "0123456789ABCDEF";
  const bool plain = character < 0x80 && (std::isalnum(static_cast<int>(character)) != 0);
  if (plain) return {static_cast<char>(character)};
  std::string text = character < 0x100 ? "\\x" : character < 0x10000 ? "\\u" : "\\U";
  for (int shift = character < 0x100 ? 4 : character < 0x10000 ? 12 : 28; shift >= 0; shift -= 4) {
    text += digits[(character >> shift) & 15];
  }
  return text;
}

CharacterRanges without_escaped(const CharacterRanges& ranges) {
  CharacterRanges others = complement(ranges);
  others.insert(others.end(), {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  return complement(others);
}

/// An ASCII character as json_string writes it.
std::string inside_string(char32_t one) {
  const std::string quoted = json_string(std::string(1, static_cast<char>(one)));
  return quoted.substr(1, quoted.size() - 2);
}

std::string class_of(const CharacterRanges& ranges) {
  std::string set;
  for (const auto& [first, last] : ranges) {
    set += in_class(first);
    if (last > first) set += "-" + in_class(last);
  }
  return "[" + set + "]";
}

/// One of these characters in a string of JSON.
std::string json_character(const CharacterRanges& ranges) {
  if (complement(ranges).empty()) return "char";
  const auto has = [&](char32_t one) {
    return std::ranges::any_of(ranges, [&](const auto& range) { return range.first <= one && one <= range.second; });
  };
  bool all_controls = true;
  for (char32_t control = 0; control < 0x20; ++control) all_controls = all_controls && has(control);
  std::vector<std::string> ways;
  if (const CharacterRanges plain = without_escaped(ranges); !plain.empty()) ways.push_back(class_of(plain));
  if (all_controls) ways.emplace_back("control");
  for (char32_t one = 0; one <= '\\'; ++one) {
    const bool needs_escape = (one < 0x20 && !all_controls) || one == '"' || one == '\\';
    if (needs_escape && has(one)) ways.push_back(gbnf_string(inside_string(one)));
  }
  if (ways.size() == 1) return ways.front();
  std::string text;
  for (const std::string& way : ways) text += (text.empty() ? "( " : " | ") + way;
  return text + " )";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> language_rules(const RegularLanguage& language,
                                                                const std::string& name, Writing writing) {
  const bool is_json = writing == Writing::json;
  const auto name_of = [&](int state) { return name + "-" + std::to_string(state); };
  std::vector<std::pair<std::string, std::string>> rules;
  for (int i = 0; i < static_cast<int>(language.states().size()); ++i) {
    const RegularLanguage::State& state = language.states()[static_cast<std::size_t>(i)];
    if (is_json && language.is_free(i)) {
      rules.emplace_back(name_of(i), "rest");
      continue;
    }
    std::map<int, CharacterRanges> ranges;  // by where they lead
    for (const auto& [first, last, to] : state.edges) ranges[to].emplace_back(first, last);
    std::string body;
    const auto add = [&](const std::string& alternative) { body += (body.empty() ? "" : " | ") + alternative; };
    for (const auto& [to, characters] : ranges) {
      add((is_json ? json_character(characters) : class_of(characters)) + " " + name_of(to));
    }
    if (state.accepts) add(is_json ? R"("\"")" : R"("")");
    rules.emplace_back(name_of(i), body);
  }
  return rules;
}

}  // namespace draftproof
