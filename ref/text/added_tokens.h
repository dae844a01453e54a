// SPDX-License-Identifier: MIT
// Cuts added tokens out of a text, before all other steps. The leftmost match comes first, and the longest one at each
// place; white space removed by lstrip and rstrip belongs to the token. Follows AddedVocabulary of Hugging Face's
// `tokenizers`.
#pragma once

#include <bitset>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

struct AddedToken {
  Token id = 0;
  std::string content;  // as in the file
  std::string pattern;  // the text to match: `content`, normalized if `normalized`
  bool special = false;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;  // matched in normalized text, after the others
};

/// A part of a text: an added token, or text to tokenize further.
struct TextPart {
  std::string_view text;
  Token token;  // -1: text
};

/// Bytes [begin, end) of a text.
struct TextRange {
  std::size_t begin;
  std::size_t end;
};

class AddedTokenCutter {
 public:
  /// `tokens` have distinct, non-empty patterns.
  explicit AddedTokenCutter(std::vector<AddedToken> tokens);

  /// Returns the parts of `text` (UTF-8), in order; they point into it. Special tokens stay text unless they lie in one
  /// of the ranges `special`, which are in order and do not overlap.
  std::vector<TextPart> cut(std::string_view text, std::span<const TextRange> special) const;

  /// Whether any token is special.
  bool has_special() const noexcept { return has_special_; }

  /// Returns the length in bytes of the longest pattern that `text` begins with; 0 when there is none.
  std::size_t longest_match(std::string_view text) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // by pattern
  std::bitset<256> first_bytes_;
  bool has_special_ = false;
};

}  // namespace draftproof
