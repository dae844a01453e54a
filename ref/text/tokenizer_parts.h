// SPDX-License-Identifier: MIT
// The checked contents of a tokenizer file of any format. A tokenizer uses nothing else.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ref/base/token.h"
#include "ref/formats/gguf.h"
#include "ref/text/added_tokens.h"
#include "ref/text/merging.h"
#include "ref/text/normalizer.h"
#include "ref/text/piece_model.h"
#include "ref/text/pre_tokenizer.h"
#include "ref/text/text_table.h"
#include "ref/text/token_decoder.h"

namespace draftproof {

/// The largest id. Known vocabularies have at most a few hundred thousand entries; tables are as long as the largest
/// id.
inline constexpr Token token_max = (1 << 22) - 1;

struct TokenizerParts {
  struct Entry {
    std::string text;   // as in the file
    std::string bytes;  // what the token decodes to
    bool taken = false;
    bool added = false;
    bool special = false;  // never what a text becomes, unless it is asked to
    bool byte = false;     // stands for one byte of unknown text, never for its own text
  };

  std::vector<Entry> entries;                // by id; ids may leave gaps
  TextTable vocabulary;                      // without added tokens
  TextTable added;                           // by content
  std::vector<AddedToken> added_raw;         // matched first
  std::vector<AddedToken> added_normalized;  // matched in normalized text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<const PieceModel> model;
  TextStart start;
  std::vector<Token> before;  // tokens that add_special puts around a text
  std::vector<Token> after;

  /// Returns the token of a text, added or not; -1 when there is none.
  Token find(std::string_view text) const;
};

/// Builds TokenizerParts and checks the rules that hold for all formats. Every `origin` is "FILE: field NAME" and
/// begins the message of the Error for an invalid value.
class TokenizerPartsBuilder {
 public:
  TokenizerPartsBuilder(TokenDecoder decoder, Normalizer normalizer);

  /// Room for so many entries.
  void reserve(std::size_t entries);
  /// Says that an entry or a token will be added soon.
  void expect_entry(std::string_view text) const { parts_.vocabulary.expect(text); }
  /// Add the vocabulary first, then added tokens, then merges. `bytes`: what the token decodes to, if not what the
  /// decoder makes of its text.
  void add_entry(const std::string& text, Token id, const std::string& origin, std::optional<std::string> bytes = {});
  /// Adds a token with `id`, `content` and flags set; without a pattern, that is the content, normalized if it must be.
  void add_token(AddedToken token, const std::string& origin, std::optional<std::string> bytes = {});

  /// Adds the merge of two entries to a third. One to a special token or a byte is left out: text becomes neither.
  void add_merge(MergeTable& merges, std::string_view left, std::string_view right, const std::string& origin) const;
  /// "LEFT RIGHT", the older spelling.
  void add_merge(MergeTable& merges, std::string_view both, const std::string& origin) const;

  bool has_token(std::int64_t id) const;
  /// Returns the token of a text, added or not; -1 when there is none.
  Token find(std::string_view text) const { return parts_.find(text); }

  TokenizerParts& parts() { return parts_; }

 private:
  TokenizerParts::Entry& entry(Token id, const std::string& origin);
  Token merged(std::string_view text, const std::string& origin) const;

  TokenDecoder decoder_;
  TokenizerParts parts_;
  std::unordered_set<std::string> normalized_patterns_;
};

/// The bytes of a file of at most 256 MiB.
std::string read_tokenizer_file(const std::filesystem::path& path);

/// Readers of the formats. `file`: read, or named in errors.
TokenizerParts read_tokenizer_json(const std::filesystem::path& file);
TokenizerParts read_tokenizer_gguf(const std::string& file, const GgufMetadata& metadata);
/// SentencePiece's tokenizer.model; whether it adds a BOS and an EOS may be in the tokenizer_config.json beside it.
TokenizerParts read_tokenizer_model(const std::filesystem::path& file);
/// Kimi's tiktoken.model, with the tokenizer_config.json beside it.
TokenizerParts read_tokenizer_tiktoken(const std::filesystem::path& file);

}  // namespace draftproof
