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

class AddedTokenCutter {
 public:
  /// `tokens` have distinct, non-empty patterns.
  explicit AddedTokenCutter(std::vector<AddedToken> tokens);

  /// Returns the parts of `text` (UTF-8), in order; they point into it. Without `parse_special`, special tokens stay
  /// text.
  std::vector<TextPart> cut(std::string_view text, bool parse_special) const;

  /// Returns the length in bytes of the longest pattern that `text` begins with; 0 when there is none.
  std::size_t longest_match(std::string_view text) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // by pattern
  std::bitset<256> first_bytes_;
};

}  // namespace draftproof
