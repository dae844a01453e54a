// SPDX-License-Identifier: MIT
// Byte-pair encoding of characters, as in SentencePiece: neighbors are joined to an entry of the vocabulary, either by
// the rank of their merge (tokenizer.json) or by the score of what they become, the highest first (SentencePiece itself
// and llama.cpp). Characters that are in no entry become byte tokens or the unknown token.
//
// A piece may be a whole text. Where two neighboring characters are in no entry next to each other, nothing can be
// joined across them, so the text is cut there and the cost stays linear.
#pragma once

#include "ref/text/piece_model.h"
#include "ref/text/text_table.h"

namespace draftproof {

class CharacterBpe final : public PieceModel {
 public:
  explicit CharacterBpe(UnknownText unknown) : unknown_(std::move(unknown)), neighbors_(neighbor_bits / 64) {}

  /// Room for so many entries.
  void reserve(std::size_t entries) { entries_.reserve(entries); }
  /// Says that this one will be added soon.
  void expect_entry(std::string_view text) const { entries_.expect(text); }
  /// Adds an entry that text may become. The texts of all are distinct.
  void add_entry(std::string_view text, Token token);
  /// Neighbors are joined by these merges, of entries;
  MergeTable& merges() { return merges_; }
  /// or, once this is called, by the scores, of every token.
  void set_scores(const std::vector<double>& scores);
  /// A piece of nothing but line feeds that is an entry becomes that token without any merge.
  void take_line_feeds_whole() { line_feeds_whole_ = true; }
  /// A piece that is an entry becomes that token without any merge.
  void take_entries_whole() { entries_whole_ = true; }

  std::string_view kind() const override { return "BPE of characters"; }
  void encode(std::span<const std::string_view> pieces, PieceWork& work, std::vector<Token>& tokens) const override;

 private:
  static constexpr std::size_t neighbor_bits = std::size_t{1} << 20;

  void encode_piece(std::string_view piece, PieceWork& work, std::vector<Token>& tokens) const;
  /// `after_unknown`: whether the token before is of an unknown character; told of the last one.
  void encode_part(std::string_view part, bool& after_unknown, PieceWork& work, std::vector<Token>& tokens) const;
  void merge(std::string_view part, Merger& merger) const;
  bool taken_whole(std::string_view piece) const;
  bool may_be_joined(char32_t left, char32_t right) const;

  UnknownText unknown_;
  TextTable entries_;
  MergeTable merges_;
  std::vector<std::uint32_t> ranks_;      // by token, of their scores; empty: joined by merges
  std::vector<std::uint64_t> neighbors_;  // a bit for each two neighbors in an entry, by hash
  bool line_feeds_whole_ = false;
  bool entries_whole_ = false;
};

}  // namespace draftproof
