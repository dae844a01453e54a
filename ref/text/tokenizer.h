// SPDX-License-Identifier: MIT
// Text to tokens and back, from tokenizer.json, from SentencePiece's tokenizer.model, or from the tokenizer metadata of
// a GGUF: byte-level BPE (GPT-2, Qwen, Llama 3, Nemo), BPE of characters with byte fallback (Llama 2, Mistral, Gemma)
// and unigram models.
//
// Text -> added tokens cut out (leftmost, then longest; lstrip/rstrip/single_word honored; special ones only on
// request) -> normalized -> added tokens that match normalized text -> pieces of the pre-tokenizer (PCRE2, UTF) ->
// tokens of the model. Everything in the file that is not implemented is rejected by name rather than ignored.
//
// The reference implementation is that of the format: Hugging Face's `tokenizers`, SentencePiece, llama.cpp. Wherever
// they drop a byte that the vocabulary lacks, this class throws an Error; and text never becomes a special token by the
// merges or the entries of a vocabulary, as it may there.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ref/base/token.h"
#include "ref/formats/checkpoint.h"
#include "ref/text/added_tokens.h"
#include "ref/text/stop_strings.h"

namespace draftproof {

class Tokenizer {
 public:
  /// Reads a tokenizer.json, a tokenizer.model, that of a folder (the first of these two), or the metadata of a .gguf
  /// file. Throws Error when there is none.
  static Tokenizer load(const std::filesystem::path& path);
  /// Reads the tokenizer of a model whose files are open.
  static Tokenizer load(const Checkpoint& files);
  /// Reads the tokenizer of a GGUF that errors call `file`.
  static Tokenizer load(const std::string& file, const GgufMetadata& metadata);
  static bool is_in(const Checkpoint& files);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Encodes UTF-8 text. `add_special`: whether to add the tokens that the file puts around a text (a BOS, for Llama
  /// 3). `parse_special`: whether the text of a special token becomes that token; without it, only text that the
  /// vocabulary lacks becomes a special token, the unknown one. Throws Error when `text` is not UTF-8, is longer than
  /// 1 GiB, or contains a byte that the vocabulary lacks. Thread-safe.
  std::vector<Token> encode(std::string_view text, bool add_special = true, bool parse_special = false) const;
  /// The same for a text of which only some ranges may contain special tokens; they are in order and do not overlap. It
  /// is still one text: where other tokens begin and end does not depend on the ranges.
  std::vector<Token> encode(std::string_view text, bool add_special, std::span<const TextRange> special) const;
  /// Return the tokens that add_special puts before and after a text.
  const std::vector<Token>& tokens_before() const noexcept;
  const std::vector<Token>& tokens_after() const noexcept;

  /// Decodes the tokens of a whole text: the space that encoding put before it is taken away. Bytes that are not UTF-8
  /// become U+FFFD by the rule of maximal subparts, and tokens without an entry become nothing (a model often has more
  /// logits than its vocabulary). Throws Error for a negative token.
  std::string decode(std::span<const Token> tokens, bool skip_special = true) const;

  /// Appends the raw bytes that a token adds to a text that other tokens began. Throws Error for a negative token.
  void append_bytes(Token token, bool skip_special, std::string& bytes) const;

  /// Returns the raw bytes of one token; the text of a special token, and nothing for an unused id.
  /// Throws Error when the token is out of range.
  std::string bytes_of(Token token) const;
  bool is_special(Token token) const;             // false out of range
  int vocabulary() const;                         // largest id + 1
  Token find(std::string_view token_text) const;  // as spelled in the file; -1 when there is none
  std::string_view text_of(Token token) const;    // as spelled in the file; empty for an unused id
  std::string_view kind() const;                  // of the model that makes tokens: "BPE of bytes"

 private:
  friend class Detokenizer;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Whether tokens begin a text or go on with one.
enum class TextPlace { beginning, continuation };

/// The bytes of a text, token by token.
class Detokenizer {
 public:
  /// `tokenizer` outlives it.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special, TextPlace place);
  /// Appends the bytes that the next token adds. Throws Error for a negative token.
  void append(Token token, std::string& bytes);

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::size_t spaces_left_ = 0;  // that are not part of the text, if they come next
  bool in_first_token_ = false;  // no space of the next token is part of the text
};

/// Decodes a stream of tokens up to the first stop string: a StoppedText of their bytes. Without a stop string, the
/// concatenation of all that it returns from the beginning of a text equals Tokenizer::decode of all tokens.
class TextStream {
 public:
  /// `tokenizer` and `stops` outlive the stream.
  TextStream(const Tokenizer& tokenizer, const StopStrings& stops, bool skip_special = true,
             TextPlace place = TextPlace::beginning);
  std::string push(Token token);
  std::string finish();
  const std::optional<StopMatch>& match() const noexcept { return text_.match(); }

 private:
  Detokenizer detokenizer_;
  StoppedText text_;
};

}  // namespace draftproof
