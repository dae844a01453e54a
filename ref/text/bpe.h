// SPDX-License-Identifier: MIT
// Byte-pair encoding: merges by rank, leftmost first, in O(n log n) for a piece of n bytes. Candidates are in a heap
// and are checked when they are popped, as in `Word::merge_all` of Hugging Face's `tokenizers`.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

class Bpe {
 public:
  Bpe();

  /// Sets the token of a single byte; -1, the initial value, means none.
  void set_byte(unsigned char byte, Token token) { of_byte_[byte] = token; }
  Token of_byte(unsigned char byte) const { return of_byte_[byte]; }

  void reserve_merges(std::size_t count) { merges_.reserve(count); }
  /// Adds the merge of the next rank: adjacent `left` and `right` become `result`. Returns false, and adds nothing,
  /// when the pair has a rank already.
  bool add_merge(Token left, Token right, Token result);

  /// Appends the tokens of one piece; each of its bytes must have a token.
  void encode(std::string_view piece, std::vector<Token>& tokens) const;

 private:
  struct Merge {
    std::uint32_t rank;
    Token result;
  };
  struct PairHash {  // mixes all bits, so that no vocabulary makes the buckets collide
    std::size_t operator()(std::uint64_t pair) const;
  };
  static std::uint64_t pair_of(Token left, Token right);

  std::array<Token, 256> of_byte_;
  std::unordered_map<std::uint64_t, Merge, PairHash> merges_;
};

}  // namespace draftproof
