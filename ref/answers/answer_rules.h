// SPDX-License-Identifier: MIT
// The rules of a grammar of answers while it is written, and the parts that all of them have: marks, blanks, texts that
// end at a mark.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "ref/text/tokenizer.h"

namespace draftproof {

class AnswerRules {
 public:
  explicit AnswerRules(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// A rule's name in the grammar. Every rule but `root` and those of JSON has such a one.
  static std::string named(std::string_view name) { return "answer-" + std::string(name); }
  /// Adds a rule, unless it is there. Returns its name in the grammar.
  std::string add(std::string_view name, const std::string& body);
  /// Adds rules that are written out.
  void append(const std::string& rules);
  const std::string& text() const { return text_; }
  /// Throws Error for what is too large for a grammar.
  static void require_size(const std::string& text);

  std::string blanks() { return add("blanks", "[ \\t\\n]{0,8}") + " "; }

  /// Where a text as it is stands beside a mark, a line end between them is one.
  enum class Beside { nothing, text_behind, text_before };
  /// The text of a mark, in which special tokens are tokens, and line ends blanks. `star`: what its asterisk may be.
  std::string mark(std::string_view text, Beside beside = Beside::nothing, std::string_view star = "[0-9]{1,9}");

  /// Any text in which `end` does not occur. The mark may be a special token, which no text is, but it is not spelled
  /// by other tokens either: a reader would take that for the mark.
  std::string text_without(std::string_view name, std::string_view end);

 private:
  std::string part_of_mark(std::string_view part, std::string_view star) const;

  const Tokenizer& tokenizer_;
  std::string text_;
  std::set<std::string> added_;
};

}  // namespace draftproof
