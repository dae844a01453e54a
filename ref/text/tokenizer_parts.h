// SPDX-License-Identifier: MIT
// What a tokenizer file says, checked, whichever format it came in. A tokenizer runs on this and on nothing else.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ref/base/token.h"
#include "ref/formats/gguf.h"
#include "ref/text/added_tokens.h"
#include "ref/text/bpe.h"
#include "ref/text/pre_tokenizer.h"

namespace draftproof {

/// No vocabulary we know of has more than a few hundred thousand entries; tables are as long as the largest id.
inline constexpr Token token_most = (1 << 22) - 1;

struct TokenizerParts {
  struct Entry {
    std::string bytes;  // what the token decodes to
    bool taken = false;
    bool added = false;
    bool special = false;
  };

  std::string vocabulary_origin;                      // "FILE: field NAME", for errors about missing entries
  std::vector<Entry> entries;                         // by id; ids may leave gaps
  std::unordered_map<std::string, Token> vocabulary;  // spelled in the byte alphabet, without added tokens of their own
  std::unordered_map<std::string, Token> added;       // by content
  std::vector<AddedToken> added_raw;                  // looked for first
  std::vector<AddedToken> added_normalized;           // looked for in normalized text
  bool nfc = false;                                   // normalize before pre-tokenizing
  PreTokenizer pre_tokenizer;
  Bpe bpe;                                            // every merge is of tokens of the vocabulary
  bool ignore_merges = false;                         // a piece that is in the vocabulary is that token
  std::vector<Token> before;                          // what add_special puts around a text
  std::vector<Token> after;
};

/// Puts parts together and holds what both formats must hold to. Every `origin` is "FILE: field NAME" and opens the
/// sentence of the Error that a bad value gets.
class TokenizerPartsBuilder {
 public:
  TokenizerPartsBuilder(std::string vocabulary_origin, bool nfc);

  /// First the vocabulary, then merges and added tokens in any order.
  void add_entry(const std::string& spelled, Token id, const std::string& origin);
  void add_merge(const std::string& left, const std::string& right, const std::string& origin);
  /// "LEFT RIGHT", the older spelling.
  void add_merge(const std::string& both, const std::string& origin);
  /// `id`, `content` and the flags are set, the rest follows. `spelled`: it decodes as Hugging Face's ByteLevel decodes
  /// it, where characters of the byte alphabet stand for bytes.
  void add_token(AddedToken token, bool spelled, const std::string& origin);

  bool has_token(std::int64_t id) const;
  /// A byte that UTF-8 uses and the vocabulary lacks; -1 when there is none.
  int missing_byte() const;

  TokenizerParts& parts() { return parts_; }

 private:
  TokenizerParts::Entry& entry(Token id, const std::string& origin);
  Token merged(const std::string& spelled, const std::string& origin) const;

  TokenizerParts parts_;
  std::unordered_set<std::string> normalized_patterns_;
};

TokenizerParts read_tokenizer_json(const std::filesystem::path& file);
/// `file`: named in errors.
TokenizerParts read_tokenizer_gguf(const std::string& file, const GgufMetadata& metadata);

}  // namespace draftproof
