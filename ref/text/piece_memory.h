// SPDX-License-Identifier: MIT
// What short pieces of a text became before: words repeat, and remembering is faster than merging again.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ref/base/token.h"
#include "ref/text/text_table.h"

namespace draftproof {

class PieceMemory {
 public:
  /// Appends the tokens of the piece; returns false when it is not remembered.
  bool recall(std::string_view piece, std::vector<Token>& tokens) const {
    const std::int32_t index = known_.find(piece);
    if (index < 0) return false;
    tokens.insert(tokens.end(), tokens_.begin() + ends_[index], tokens_.begin() + ends_[index + 1]);
    return true;
  }

  /// Remembers the piece if it is short and there is room. It is not known yet.
  void keep(std::string_view piece, std::span<const Token> tokens) {
    if (piece.size() > piece_bytes_max || ends_.size() > pieces_max) return;
    known_.insert(piece, static_cast<std::int32_t>(ends_.size()) - 1);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    ends_.push_back(static_cast<std::int32_t>(tokens_.size()));
  }

 private:
  static constexpr std::size_t piece_bytes_max = 64;
  static constexpr std::size_t pieces_max = std::size_t{1} << 16;

  TextTable known_;  // the index of a piece
  std::vector<Token> tokens_;
  std::vector<std::int32_t> ends_ = {0};  // of the tokens of each piece; the first begin before it
};

}  // namespace draftproof
