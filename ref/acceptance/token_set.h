// SPDX-License-Identifier: MIT
// A set of tokens of one vocabulary, as bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

class TokenSet {
 public:
  /// The empty set of a vocabulary of this size.
  explicit TokenSet(int vocabulary = 0) : words_((static_cast<std::size_t>(vocabulary) + 63) / 64) {}

  bool operator==(const TokenSet&) const = default;

  /// `token` is one of the vocabulary.
  void add(Token token) { words_[word_of(token)] |= bit_of(token); }
  /// `other` is of the same vocabulary.
  void add(const TokenSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  void remove(Token token) { words_[word_of(token)] &= ~bit_of(token); }
  bool has(Token token) const noexcept {
    return token >= 0 && word_of(token) < words_.size() && (words_[word_of(token)] & bit_of(token)) != 0;
  }
  void clear() { std::ranges::fill(words_, 0); }
  bool empty() const noexcept {
    return std::ranges::all_of(words_, [](std::uint64_t word) { return word == 0; });
  }
  /// Returns the token of a set that has exactly one.
  std::optional<Token> only() const noexcept {
    std::optional<Token> token;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] == 0) continue;
      if (token || !std::has_single_bit(words_[i])) return std::nullopt;
      token = static_cast<Token>(64 * i + static_cast<std::size_t>(std::countr_zero(words_[i])));
    }
    return token;
  }

 private:
  static std::size_t word_of(Token token) noexcept { return static_cast<std::size_t>(token) / 64; }
  static std::uint64_t bit_of(Token token) noexcept { return std::uint64_t{1} << (token % 64); }

  std::vector<std::uint64_t> words_;
};

}  // namespace draftproof
