// SPDX-License-Identifier: MIT
// A context-free grammar over bytes, compiled from GBNF, the notation of llama.cpp:
//
//     root   ::= "yes" | "no" | number          a rule for each name; the grammar is that of `root`
//     number ::= [0-9]+ ("." [0-9]{1,3})?       classes, groups, * + ? {m} {m,} {m,n}; # begins a comment
//
// Escapes in strings and classes: \n \t \r \\ \" \[ \] \- \xHH \uHHHH \UHHHHHHHH. `.` is any character. Characters are
// compiled to the bytes of their UTF-8, so a token may end within one.
#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof {

using ByteSet = std::bitset<256>;

class Grammar {
 public:
  static constexpr std::size_t text_max = std::size_t{1} << 20;     // bytes
  static constexpr std::size_t symbols_max = std::size_t{1} << 18;  // compiled, with all repetitions written out
  static constexpr int depth_max = 256;                             // of groups

  /// Throws Error, naming origin and line, for text that is no grammar, is too large, names a rule that does not exist,
  /// or has a rule that can come back to itself without having read a byte.
  static Grammar from_gbnf(std::string_view text, const std::string& origin);

  /// What comes next at a place of a rule.
  struct Symbol {
    enum class Kind { bytes, rule, end };  // one of a set of bytes; all of another rule; the rule ends
    Kind kind = Kind::end;
    int index = 0;  // of the set, or of the rule
  };

  const Symbol& at(int place) const { return symbols_[static_cast<std::size_t>(place)]; }
  const ByteSet& set(int index) const { return sets_[static_cast<std::size_t>(index)]; }
  /// Where the alternatives of a rule begin; each goes on to the next `end`.
  const std::vector<int>& alternatives(int rule) const { return rules_[static_cast<std::size_t>(rule)]; }
  int root() const noexcept { return root_; }

 private:
  friend class GrammarCompiler;
  std::vector<Symbol> symbols_;
  std::vector<ByteSet> sets_;
  std::vector<std::vector<int>> rules_;
  int root_ = 0;
};

}  // namespace draftproof
