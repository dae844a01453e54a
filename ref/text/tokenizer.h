// SPDX-License-Identifier: MIT
// Byte-level BPE as GPT-2, Qwen and Llama 3 use it, from tokenizer.json (or the tokenizer metadata of a GGUF).
//
// Text -> added tokens cut out (leftmost, then longest; lstrip/rstrip/single_word honoured) -> NFC of what lies between
// when the file asks for it -> added tokens that want normalized text -> pre-tokenizer pieces (PCRE2, UTF) -> bytes
// -> merges by rank, leftmost first -> ids.
// Anything in the file that we do not implement is refused by name rather than ignored. The reference implementation is
// Hugging Face's `tokenizers`; where it drops a byte the vocabulary has no entry for, we throw an Error.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ref/base/token.h"
#include "ref/formats/checkpoint.h"

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

  /// `add_special`: what the file's post-processor adds (a BOS, for Llama 3). `text` that is not UTF-8, is longer than
  /// 1 GiB, or holds a byte that the vocabulary lacks is an Error. Safe to call from several threads.
  std::vector<Token> encode(std::string_view text, bool add_special = true) const;

  /// As in the reference implementation, bytes that are not UTF-8 become U+FFFD and tokens without an entry become
  /// nothing (a model's logits are often longer than its vocabulary). A negative token is an Error.
  std::string decode(std::span<const Token> tokens, bool skip_special = true) const;

  /// The raw bytes of one token (for streaming); special tokens give their text, gaps between ids give nothing.
  /// Out of range: Error.
  std::string bytes_of(Token token) const;
  bool is_special(Token token) const;                 // false out of range
  int vocabulary() const;                             // largest id + 1
  Token find(std::string_view token_text) const;      // spelled as the file spells it; -1 when there is none

 private:
  friend class TextStream;
  void append_bytes(Token token, bool skip_special, std::string& bytes) const;

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
