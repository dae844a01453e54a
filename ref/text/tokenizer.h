// SPDX-License-Identifier: MIT
// Byte-level BPE as in GPT-2, Qwen and Llama 3, from tokenizer.json (or the tokenizer metadata of a GGUF).
//
// Text -> added tokens cut out (leftmost, then longest; lstrip/rstrip/single_word honored) -> NFC of the texts between
// them if the file requires it -> added tokens that match normalized text -> pre-tokenizer pieces (PCRE2, UTF) -> bytes
// -> merges by rank, leftmost first -> ids. Everything in the file that is not implemented is rejected by name rather
// than ignored. The reference implementation is Hugging Face's `tokenizers`; where it drops a byte that the vocabulary
// lacks, this class throws an Error.
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
#include "ref/text/stop_strings.h"

namespace draftproof {

class Tokenizer {
 public:
  /// Reads a tokenizer.json, that of a folder, or the metadata of a .gguf file. Throws Error when there is none.
  static Tokenizer load(const std::filesystem::path& path);
  /// Reads the tokenizer of a model whose files are open.
  static Tokenizer load(const Checkpoint& files);
  static bool is_in(const Checkpoint& files);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Encodes UTF-8 text. `add_special`: whether to add the special tokens of the file's post-processor (a BOS, for
  /// Llama 3). Throws Error when `text` is not UTF-8, is longer than 1 GiB, or contains a byte that the vocabulary
  /// lacks. Thread-safe.
  std::vector<Token> encode(std::string_view text, bool add_special = true) const;

  /// Decodes tokens. As in the reference implementation, bytes that are not UTF-8 become U+FFFD and tokens without an
  /// entry become nothing (a model often has more logits than its vocabulary). Throws Error for a negative token.
  std::string decode(std::span<const Token> tokens, bool skip_special = true) const;

  /// Appends the raw bytes that a token adds to what decode joins. Throws Error for a negative token.
  void append_bytes(Token token, bool skip_special, std::string& bytes) const;

  /// Returns the raw bytes of one token; the text of a special token, and nothing for an unused id.
  /// Throws Error when the token is out of range.
  std::string bytes_of(Token token) const;
  bool is_special(Token token) const;                 // false out of range
  int vocabulary() const;                             // largest id + 1
  Token find(std::string_view token_text) const;      // as spelled in the file; -1 when there is none

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Decodes a stream of tokens up to the first stop string: a StoppedText of their bytes. Without a stop string, the
/// concatenation of all it returns equals Tokenizer::decode of all tokens.
class TextStream {
 public:
  /// Both outlive the stream.
  TextStream(const Tokenizer& tokenizer, const StopStrings& stops, bool skip_special = true);
  std::string push(Token token);
  std::string finish();
  const std::optional<StopMatch>& match() const noexcept { return text_.match(); }

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  StoppedText text_;
};

}  // namespace draftproof
