// SPDX-License-Identifier: MIT
// A text in the tokens of a target, for a draft whose tokenizer is another one: what the draft reads, and what the
// target's tokens for its continuation are.
//
// The text is what the target's tokens say, special tokens included, without those that its tokenizer puts before a
// text. What is no UTF-8 becomes U+FFFD; a character that is not finished yet waits for its other bytes. Only where the
// target's text has a special token may the draft's have one.
#pragma once

#include <string>
#include <vector>

#include "ref/base/token.h"
#include "ref/text/added_tokens.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

class TranslatedText {
 public:
  /// The tokenizers outlive the text.
  TranslatedText(const Tokenizer& target, const Tokenizer& draft);

  /// Appends the target's next token.
  void append(Token token);

  /// Returns the whole characters of the text as the draft's tokenizer encodes them, from the beginning, behind the
  /// tokens that it puts before a text. Empty when it cannot encode them. Takes time in proportion to the text.
  std::vector<Token> in_draft_tokens() const;

 private:
  friend class TranslatedContinuation;
  const Tokenizer& target_;
  const Tokenizer& draft_;
  Detokenizer detokenizer_;
  std::size_t appended_ = 0;
  std::size_t before_ = 0;          // of these, that the target's tokenizer has put before the text
  std::string text_;                // whole characters
  std::string unfinished_;          // the first bytes of a character
  std::vector<TextRange> special_;  // what special tokens say
};

/// What a draft adds to a text.
class TranslatedContinuation {
 public:
  /// The text outlives the continuation and stays as it is.
  explicit TranslatedContinuation(const TranslatedText& text);

  /// Appends the draft's next token. Returns false when the text ends there for the target: at a special token, a token
  /// without text, or where the target's text has an unfinished character and the draft another one.
  bool append(Token token);

  /// Returns what follows the text when the target's tokenizer encodes the end of the text together with the
  /// continuation. Nothing when one of these tokens lies on both sides of the place where the text ends, or when its
  /// tokens do not say again what it has encoded. So the text need not be divided into tokens as the tokenizer would
  /// do it. Without the last token, which more text may make longer; where a special token has ended the continuation,
  /// with it and, if the target has it, with that token.
  std::vector<Token> in_target_tokens() const;

  /// The bytes before the continuation that are encoded with it, at most: more than a word needs. They begin behind
  /// the last special token, and with no space.
  static constexpr std::size_t context_bytes = 256;

 private:
  const TranslatedText& text_;
  std::string context_;  // whole characters at the end of the text
  Detokenizer detokenizer_;
  std::string bytes_;  // of the continuation
  bool ended_ = false;
  Token end_ = -1;  // the target's token of the special token that has ended it; -1: it has none
};

}  // namespace draftproof
