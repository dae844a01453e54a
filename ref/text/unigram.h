// SPDX-License-Identifier: MIT
// The unigram model of SentencePiece: of all ways to divide a text into entries, the one with the largest sum of
// scores; of equal ones, the one whose last entry is the longest, and so on from the right. A character that is no
// entry counts as the smallest score less 10, and becomes byte tokens or the unknown token. Sums are doubles, as in
// Hugging Face's `tokenizers` and llama.cpp (SentencePiece itself adds floats).
//
// A place that no entry spans divides the text into parts with sums of their own, so memory is that of one part.
#pragma once

#include "ref/text/key_table.h"
#include "ref/text/piece_model.h"

namespace draftproof {

class Unigram final : public PieceModel {
 public:
  explicit Unigram(UnknownText unknown) : unknown_(std::move(unknown)), at_node_(1) {}

  /// Adds an entry that text may become, with distinct, non-empty texts.
  void add_entry(std::string_view text, Token token, double score);
  /// The smallest score of the vocabulary, entries that text cannot become included where the file says so.
  void set_smallest_score(double score) { unknown_score_ = score - 10; }

  std::string_view kind() const override { return "a unigram model"; }
  void encode(std::span<const std::string_view> pieces, PieceWork& work, std::vector<Token>& tokens) const override;

 private:
  struct Node {
    Token token = -1;
    double score = 0;
  };
  struct Best;
  void encode_piece(std::string_view piece, std::vector<Best>& best, std::vector<Token>& tokens) const;
  void emit(std::string_view part, const std::vector<Best>& best, bool& after_unknown,
            std::vector<Token>& tokens) const;

  UnknownText unknown_;
  double unknown_score_ = -10;
  KeyTable<std::int32_t> children_;  // of a node by the next byte
  std::vector<Node> at_node_;        // 0 is the start
};

}  // namespace draftproof
