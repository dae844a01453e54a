// SPDX-License-Identifier: MIT
// A context-free grammar over bytes, compiled from GBNF, the notation of llama.cpp:
//
//     root   ::= "yes" | "no" | number          a rule for each name; the grammar is that of `root`
//     number ::= [0-9]+ ("." [0-9]{1,3})?       classes, groups, * + ? {m} {m,} {m,n}; # begins a comment
//
//     thought ::= <[151667]> !<[151668]>*       the token of this number, or any but it; <text>: the token so spelled
//
// Escapes in strings and classes: \n \t \r \\ \" \[ \] \- \xHH \uHHHH \UHHHHHHHH. `.` is any character. Characters are
// compiled to the bytes of their UTF-8, so a token may end within one. Special tokens have no bytes: they come where
// the grammar names them.
#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

class Tokenizer;

using ByteSet = std::bitset<256>;

class Grammar {
 public:
  static constexpr std::size_t text_max = std::size_t{1} << 20;     // bytes
  static constexpr std::size_t symbols_max = std::size_t{1} << 18;  // compiled
  static constexpr int depth_max = 256;                             // of groups

  /// Throws Error, naming origin and line, for text that is no grammar, is too large, names a rule that does not exist,
  /// or has a rule that can come back to itself without having read a byte. `tokenizer` finds tokens by their text;
  /// with nullptr they have to have numbers.
  static Grammar from_gbnf(std::string_view text, const std::string& origin, const Tokenizer* tokenizer = nullptr);

  /// What comes next at a place of a rule.
  struct Symbol {
    /// One of a set of bytes; all of another rule; a token; any other token than this one; the rule ends.
    enum class Kind { bytes, rule, token, other_token, end };
    Kind kind = Kind::end;
    int index = 0;  // of the set or of the rule, or the token
  };

  const Symbol& at(int place) const { return symbols_[static_cast<std::size_t>(place)]; }
  const ByteSet& set(int index) const { return sets_[static_cast<std::size_t>(index)]; }
  /// Where the alternatives of a rule begin; each goes on to the next `end`.
  const std::vector<int>& alternatives(int rule) const { return rules_[static_cast<std::size_t>(rule)]; }
  int root() const noexcept { return root_; }
  /// Whether a place of it is a token.
  bool names_tokens() const noexcept { return names_tokens_; }

 private:
  friend class GrammarCompiler;
  std::vector<Symbol> symbols_;
  std::vector<ByteSet> sets_;
  std::vector<std::vector<int>> rules_;
  int root_ = 0;
  bool names_tokens_ = false;
};

/// Returns the same grammar with another name in place of `root`.
std::string with_root_named(std::string_view gbnf, std::string_view name);

}  // namespace draftproof
