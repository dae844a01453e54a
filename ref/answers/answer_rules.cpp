// SPDX-License-Identifier: MIT
#include "ref/answers/answer_rules.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ref/answers/answer_format.h"
#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/grammar/grammar.h"
#include "ref/grammar/json_schema.h"

namespace draftproof {
namespace {

std::string in_class(char32_t c) {
  std::string text;
  if (c == ']' || c == '[' || c == '\\' || c == '^' || c == '-') text += '\\';
  if (c == '\n') return "\\n";
  utf8::append(text, c);
  return text;
}

}  // namespace

void AnswerRules::require_size(const std::string& text) {
  if (text.size() > Grammar::text_max) throw Error("the schemas of the tools are too large together; simplify them");
}

std::string AnswerRules::add(std::string_view name, const std::string& body) {
  if (added_.insert(std::string(name)).second) append(named(name) + " ::= " + body + "\n");
  return named(name);
}

void AnswerRules::append(const std::string& rules) {
  text_ += rules;
  require_size(text_);
}

std::string AnswerRules::part_of_mark(std::string_view part, std::string_view star) const {
  std::string gbnf;
  for (std::size_t at = 0; at < part.size();) {
    const std::size_t end = std::min(part.find('*', at), part.size());
    std::string plain;
    for (const Token token : tokenizer_.encode(part.substr(at, end - at), false, true)) {
      if (!tokenizer_.is_special(token)) {
        tokenizer_.append_bytes(token, false, plain);
        continue;
      }
      if (!plain.empty()) gbnf += gbnf_string(plain) + " ";
      plain.clear();
      gbnf += "<[" + std::to_string(token) + "]> ";
    }
    if (!plain.empty()) gbnf += gbnf_string(plain) + " ";
    if (end < part.size()) gbnf += std::string(star) + " ";
    at = end + 1;
  }
  return gbnf;
}

std::string AnswerRules::mark(std::string_view text, Beside beside, std::string_view star) {
  const std::string line_end = "\"\\n\" ";
  std::string gbnf;
  bool is_first = true;
  for (const std::string_view part : parts_of_mark(text)) {
    if (!is_first) gbnf += blanks();
    else if (text.starts_with('\n')) gbnf += beside == Beside::text_before ? line_end : blanks();
    is_first = false;
    gbnf += part_of_mark(part, star);
  }
  if (text.ends_with('\n')) gbnf += beside == Beside::text_behind ? line_end : blanks();
  return gbnf;
}

std::string AnswerRules::text_without(std::string_view name, std::string_view end) {
  if (added_.contains(std::string(name))) return named(name);
  std::vector<char32_t> letters;
  for (std::size_t at = 0; at < end.size();) {
    const utf8::Character step = utf8::step(end, at);
    letters.push_back(step.code_point);
    at += step.length;
  }
  const auto count = letters.size();
  const auto state = [&](std::size_t read) {
    return std::string(name) + (read == 0 ? "" : "-" + std::to_string(read));
  };
  /// How many letters of `end` the text ends with that has these and `next` behind them.
  const auto after = [&](std::size_t read, char32_t next) {
    std::vector<char32_t> text(letters.begin(), letters.begin() + static_cast<std::ptrdiff_t>(read));
    text.push_back(next);
    for (std::size_t longest = std::min(count, text.size()); longest > 0; --longest) {
      if (std::equal(letters.begin(), letters.begin() + static_cast<std::ptrdiff_t>(longest),
                     text.end() - static_cast<std::ptrdiff_t>(longest))) {
        return longest;
      }
    }
    return std::size_t{0};
  };
  const std::set<char32_t> alphabet(letters.begin(), letters.end());
  std::string others = "[^";
  for (const char32_t letter : alphabet) others += in_class(letter);
  others += "] " + named(state(0));
  for (std::size_t read = 0; read < count; ++read) {
    std::string body = "\"\" | " + others;
    for (const char32_t letter : alphabet) {
      const std::size_t next = after(read, letter);
      if (next < count) body += " | [" + in_class(letter) + "] " + named(state(next));
    }
    add(state(read), body);
  }
  return named(name);
}

}  // namespace draftproof
