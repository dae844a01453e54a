// SPDX-License-Identifier: MIT
// The checked contents of a tokenizer file of either format. A tokenizer uses nothing else.
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

/// The largest id. Known vocabularies have at most a few hundred thousand entries; tables are as long as the largest
/// id.
inline constexpr Token token_most = (1 << 22) - 1;

struct TokenizerParts {
  struct Entry {
    std::string bytes;  // the bytes that the token decodes to
    bool taken = false;
    bool added = false;
    bool special = false;
  };

  std::string vocabulary_origin;                      // "FILE: field NAME", for errors about missing entries
  std::vector<Entry> entries;                         // by id; ids may leave gaps
  std::unordered_map<std::string, Token> vocabulary;  // keys in the byte alphabet; without added tokens
  std::unordered_map<std::string, Token> added;       // by content
  std::vector<AddedToken> added_raw;                  // matched first
  std::vector<AddedToken> added_normalized;           // matched in normalized text
  bool nfc = false;                                   // normalize before pre-tokenizing
  PreTokenizer pre_tokenizer;
  Bpe bpe;                                            // all merges are of tokens in the vocabulary
  bool ignore_merges = false;                         // a piece that is in the vocabulary becomes that token
  std::vector<Token> before;                          // tokens that add_special puts around a text
  std::vector<Token> after;
};

/// Builds TokenizerParts and checks the rules that hold for both formats. Every `origin` is "FILE: field NAME" and
/// begins the message of the Error for an invalid value.
class TokenizerPartsBuilder {
 public:
  TokenizerPartsBuilder(std::string vocabulary_origin, bool nfc);

  /// Add the vocabulary first, then merges and added tokens in any order.
  void add_entry(const std::string& spelled, Token id, const std::string& origin);
  void add_merge(const std::string& left, const std::string& right, const std::string& origin);
  /// "LEFT RIGHT", the older spelling.
  void add_merge(const std::string& both, const std::string& origin);
  /// Adds a token with `id`, `content` and flags set; the other fields are computed. `spelled`: it decodes as in
  /// Hugging Face's ByteLevel, where characters of the byte alphabet represent bytes.
  void add_token(AddedToken token, bool spelled, const std::string& origin);

  bool has_token(std::int64_t id) const;
  /// Returns a byte that UTF-8 uses and the vocabulary lacks; -1 when there is none.
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
