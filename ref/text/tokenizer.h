// SPDX-License-Identifier: MIT
// Byte-level BPE as GPT-2, Qwen and Llama 3 use it, from tokenizer.json (or the tokenizer metadata of a GGUF).
//
// Text -> NFC when the file asks for it -> added tokens cut out (longest first, lstrip/rstrip/single_word honoured)
// -> pre-tokenizer pieces (PCRE2, UTF) -> bytes -> merges by rank, leftmost first -> ids.
// Anything in the file that we do not implement is refused by name rather than ignored.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

class Tokenizer {
 public:
  /// `path`: a tokenizer.json, a folder that holds one, or a .gguf.
  static Tokenizer load(const std::filesystem::path& path);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// `add_special`: what the file's post-processor adds (a BOS, for Llama 3). `text` that is not UTF-8 is an Error.
  std::vector<Token> encode(std::string_view text, bool add_special = true) const;

  /// Bytes that are not UTF-8 become U+FFFD, as in the reference implementation.
  std::string decode(std::span<const Token> tokens, bool skip_special = true) const;

  /// The raw bytes of one token (for streaming); special tokens give their text. Out of range: Error.
  std::string bytes_of(Token token) const;
  bool is_special(Token token) const;
  int vocabulary() const;                             // largest id + 1
  Token find(std::string_view token_text) const;      // -1 when there is none

 private:
  friend class TextStream;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Text out of tokens as they arrive. Bytes of an unfinished UTF-8 character are held back, so every piece is UTF-8 and
/// the pieces joined equal Tokenizer::decode of all tokens.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer, bool skip_special = true);
  std::string push(Token token);
  std::string finish();  // what is still held back, as U+FFFD

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::string held_;
};

}  // namespace draftproof
