// SPDX-License-Identifier: MIT
// Whether a draft's tokens mean what the target's do, so that one may propose tokens to the other. The rules are those
// of llama.cpp and ik_llama.cpp, with texts compared whole, not up to their first zero byte. A draft that breaks one
// would propose nonsense; no output would be wrong, because the target decides every token.
//
// Not compared, as there: merges, pre-tokenizers, which tokens are special, and ids below 5, where vocabularies of one
// family differ in tokens of no text.
#pragma once

#include <string>

#include "ref/base/token.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

/// A tokenizer with the number of rows of its model's logits. A model often has more rows than its tokenizer has
/// tokens, for padding, and some converters add tokens for these.
struct Vocabulary {
  const Tokenizer& tokenizer;
  int rows;
};

/// In the order in which they are looked at.
enum class VocabularyRule {
  kind,     // the same model of tokens: BPE of bytes, BPE of characters, unigram
  add_bos,  // tokens are put before a text by both or by neither
  add_eos,  // and behind it
  bos,      // the same tokens, if any are put there
  eos,
  size,  // the numbers of rows differ by at most vocabulary_size_difference
  text,  // equal texts from id first_compared_token on, as far as both tokenizers and both models have ids
};

/// Numbers of rows are compared and not those of tokens, because a GGUF may have tokens for all rows, where the
/// tokenizer.json of the same model has none for the padding.
inline constexpr int vocabulary_size_difference = 128;
inline constexpr Token first_compared_token = 5;

struct VocabularyMatch {
  bool matches = true;
  // Where not:
  VocabularyRule broken = VocabularyRule::kind;  // the first that does not hold
  Token token = -1;                              // of VocabularyRule::text, the first id whose texts differ
  std::string why = {};                          // "token 7 is 'a' in the target and 'b' in the draft"
};

VocabularyMatch match_vocabularies(const Vocabulary& target, const Vocabulary& draft);

}  // namespace draftproof
