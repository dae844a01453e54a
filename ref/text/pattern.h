// SPDX-License-Identifier: MIT
// The regular expression of a pre-tokenizer. Tokenizer files are written for Oniguruma (Ruby syntax, Unicode); this
// class uses PCRE2. Constructs with the same meaning in both are accepted, \s \S \d \D are expanded so that their
// meaning is the same, and everything else is rejected by name. An expression that can match the empty text is
// rejected, too. Characters have the categories of Unicode 16, whatever PCRE2 has (newer_characters.h), unless
// the expression itself names characters that are newer than Unicode 14: then they have those of PCRE2.
//
// The work is limited in steps of the matcher, never in time: excessive backtracking is an Error. One step may scan the
// rest of the text, as `a*` does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof {

/// The steps that one encoding may spend on all its matches. Not for use by several threads, unlike Pattern.
class MatchBudget {
 public:
  explicit MatchBudget(std::size_t text_bytes);
  ~MatchBudget();
  MatchBudget(const MatchBudget&) = delete;
  MatchBudget& operator=(const MatchBudget&) = delete;

 private:
  friend class Pattern;
  struct Workspace;
  Workspace& workspace();
  std::unique_ptr<Workspace> workspace_;  // made for the first match: it maps memory, and many texts need none
  std::uint64_t steps_left_;
};

/// A part of a text: a match, or the text between two.
struct PatternPart {
  std::string_view text;
  bool matches;

  bool operator==(const PatternPart&) const = default;
};

class Pattern {
 public:
  /// `origin` ("FILE: field NAME") begins every error message.
  Pattern(const std::string& expression, const std::string& origin);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  /// Appends the matches in `text` (UTF-8) and the texts between them, in order, none empty.
  void split(std::string_view text, MatchBudget& budget, std::vector<PatternPart>& parts) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

/// Returns an expression that matches exactly `text`.
std::string quote_for_pattern(std::string_view text);

}  // namespace draftproof
