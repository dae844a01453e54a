// SPDX-License-Identifier: MIT
#include "ref/answers/answer_rules.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ref/answers/answer_format.h"
#include "ref/base/error.h"
#include "ref/grammar/grammar.h"
#include "ref/grammar/json_schema.h"
#include "ref/grammar/language_rules.h"
#include "ref/grammar/regular_expression.h"

namespace draftproof {
namespace {

/// An expression that matches this text.
std::string expression_of(std::string_view text) {
  constexpr std::string_view signs = R"(^$\.*+?()[]{}|)";
  std::string expression;
  for (const char c : text) {
    if (signs.find(c) != std::string_view::npos) expression += '\\';
    expression += c;
  }
  return expression;
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
  if (added_.insert(std::string(name)).second) {
    const RegularLanguage texts = RegularLanguage::of_everything().without(texts_matching(expression_of(end)));
    for (const auto& [rule, body] : language_rules(texts, named(name), Writing::plain)) {
      append(rule + " ::= " + body + "\n");
    }
  }
  return named(name) + "-0";
}

}  // namespace draftproof
