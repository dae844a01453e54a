// SPDX-License-Identifier: MIT
// The last step of encoding: pieces of normalized text become tokens. No token spans two pieces.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ref/base/token.h"
#include "ref/text/merging.h"
#include "ref/text/piece_memory.h"

namespace draftproof {

/// What the pieces of one text have in common, for one model.
struct PieceWork {
  Merger merger;
  PieceMemory memory;
};

class PieceModel {
 public:
  virtual ~PieceModel() = default;
  /// What vocabularies of this model are called in messages; equal for the same model only.
  virtual std::string_view kind() const = 0;
  /// Appends the tokens of `pieces` (UTF-8, none empty), in order. Throws Error, naming the vocabulary, when it lacks
  /// what a piece contains. Thread-safe, with works of their own.
  virtual void encode(std::span<const std::string_view> pieces, PieceWork& work, std::vector<Token>& tokens) const = 0;
};

/// What becomes of a character that is in no entry.
class UnknownText {
 public:
  /// `origin`: "FILE: field NAME", begins every message.
  explicit UnknownText(std::string origin) : origin_(std::move(origin)) { of_byte_.fill(-1); }

  void set_byte(unsigned char byte, Token token) { of_byte_[byte] = token; }
  Token of_byte(unsigned char byte) const { return of_byte_[byte]; }
  /// `fused`: neighboring unknown characters become one token.
  void set_unknown(Token token, bool fused) { unknown_ = token, fused_ = fused; }

  /// Appends the byte tokens of `character` if all its bytes have one, or else the unknown token. `continues`: it
  /// follows another unknown character. Throws Error when there is neither.
  void encode(std::string_view character, bool continues, std::vector<Token>& tokens) const;

 private:
  std::string origin_;
  std::array<Token, 256> of_byte_;
  Token unknown_ = -1;
  bool fused_ = false;
};

}  // namespace draftproof
