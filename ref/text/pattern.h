// SPDX-License-Identifier: MIT
// A pre-tokenizer's regular expression. Tokenizer files are written for Oniguruma (Ruby syntax, Unicode); we match with
// PCRE2. The constructs on which the two agree are let through, \s \S \d \D are spelled out so that they agree, and
// everything else is refused by name. An expression that can match nothing is refused too.
//
// Work is bounded in steps of the matcher, never in time: an expression that backtracks without end is an Error. A step
// may scan the rest of the text, as `a*` does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof {

/// What one encoding spends on all its matches. Not shared between threads; patterns are.
class MatchBudget {
 public:
  explicit MatchBudget(std::size_t text_bytes);
  ~MatchBudget();
  MatchBudget(const MatchBudget&) = delete;
  MatchBudget& operator=(const MatchBudget&) = delete;

 private:
  friend class Pattern;
  struct Workspace;
  std::unique_ptr<Workspace> workspace_;
  std::uint64_t steps_left_;
};

class Pattern {
 public:
  /// `origin` ("FILE: field NAME") opens every error sentence.
  Pattern(const std::string& expression, const std::string& origin);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  /// Cuts `text` (UTF-8) into its matches and what lies between them, in order, none empty.
  void split(std::string_view text, MatchBudget& budget, std::vector<std::string_view>& pieces) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

/// An expression that matches exactly `text`.
std::string quote_for_pattern(std::string_view text);

}  // namespace draftproof
