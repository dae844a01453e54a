// SPDX-License-Identifier: MIT
// Byte-pair encoding of bytes, as in GPT-2, Llama 3 and Qwen: every byte has a token, and merges join them by rank.
#pragma once

#include "ref/text/piece_model.h"
#include "ref/text/text_table.h"

namespace draftproof {

class ByteBpe final : public PieceModel {
 public:
  /// `origin`: "FILE: field NAME", begins every message.
  explicit ByteBpe(std::string origin);

  void set_byte(unsigned char byte, Token token) { of_byte_[byte] = token; }
  /// Returns a byte that UTF-8 uses and that has no token; -1 when there is none.
  int missing_byte() const;
  MergeTable& merges() { return merges_; }
  /// A piece of exactly these bytes becomes this token without any merge.
  void take_whole(std::string_view bytes, Token token) { whole_.insert(bytes, token); }

  std::string_view kind() const override { return "BPE of bytes"; }
  void encode(std::span<const std::string_view> pieces, PieceWork& work, std::vector<Token>& tokens) const override;

 private:
  std::string origin_;
  std::array<Token, 256> of_byte_;
  MergeTable merges_;
  TextTable whole_;
};

}  // namespace draftproof
