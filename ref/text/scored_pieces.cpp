// SPDX-License-Identifier: MIT
#include "ref/text/scored_pieces.h"

#include <algorithm>
#include <limits>

#include "ref/base/error.h"
#include "ref/formats/printable.h"
#include "ref/text/character_bpe.h"
#include "ref/text/unigram.h"

namespace draftproof {
namespace {

constexpr std::size_t ahead = 16;  // pieces that are expected: their places come from memory meanwhile

[[noreturn]] void fail(const std::string& origin, Token id, const std::string& what) {
  throw Error(origin + "[" + std::to_string(id) + "]: " + what);
}

void add_piece(const ScoredPiece& piece, Token id, PieceKind kind, PieceSource source, const std::string& origin,
               TokenizerPartsBuilder& builder) {
  if (piece.text.empty()) fail(origin, id, "the piece is empty");
  AddedToken added;
  added.id = id;
  added.content = piece.text;
  switch (piece.type) {
    case PieceType::normal:
    case PieceType::unused: return builder.add_entry(piece.text, id, origin);
    case PieceType::byte: {
      const auto byte = byte_of_fallback_entry(piece.text);
      if (!byte) fail(origin, id, in_quotes(piece.text) + " is no byte like <0x41>");
      return builder.add_entry(piece.text, id, origin, std::string(1, static_cast<char>(*byte)));
    }
    case PieceType::user_defined:
      if (source == PieceSource::llama_cpp) return builder.add_token(std::move(added), origin, piece.text);
      if (kind == PieceKind::unigram) return builder.add_entry(piece.text, id, origin);
      added.pattern = piece.text;
      added.normalized = true;
      return builder.add_token(std::move(added), origin);
    case PieceType::unknown:
    case PieceType::control: added.special = true; return builder.add_token(std::move(added), origin, piece.text);
  }
}

UnknownText unknown_text(const std::vector<ScoredPiece>& pieces, const std::string& origin) {
  UnknownText unknown(origin);
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const auto token = static_cast<Token>(id);
    if (pieces[id].type == PieceType::unknown) unknown.set_unknown(token, true);
    if (pieces[id].type == PieceType::byte) unknown.set_byte(*byte_of_fallback_entry(pieces[id].text), token);
  }
  return unknown;
}

std::unique_ptr<const PieceModel> make_bpe(const std::vector<ScoredPiece>& pieces, PieceSource source,
                                           const std::string& origin, UnknownText unknown) {
  auto bpe = std::make_unique<CharacterBpe>(std::move(unknown));
  bpe->reserve(pieces.size());
  std::vector<double> scores;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const ScoredPiece& piece = pieces[id];
    scores.push_back(piece.score);
    if (piece.type == PieceType::unused && source == PieceSource::sentencepiece) {
      fail(origin, static_cast<Token>(id), "an unused piece is not implemented for BPE");
    }
    if (id + ahead < pieces.size()) bpe->expect_entry(pieces[id + ahead].text);
    const bool found =
        piece.type == PieceType::normal || piece.type == PieceType::user_defined || piece.type == PieceType::unused;
    if (found) bpe->add_entry(piece.text, static_cast<Token>(id));
  }
  bpe->set_scores(scores);
  return bpe;
}

std::unique_ptr<const PieceModel> make_unigram(const std::vector<ScoredPiece>& pieces, PieceSource source,
                                               UnknownText unknown) {
  auto unigram = std::make_unique<Unigram>(std::move(unknown));
  double smallest = std::numeric_limits<float>::max();
  double largest = std::numeric_limits<float>::min();
  for (const ScoredPiece& piece : pieces) {
    if (piece.type != PieceType::normal) continue;
    smallest = std::min(smallest, piece.score);
    largest = std::max(largest, piece.score);
  }
  unigram->set_smallest_score(smallest);
  const bool finds_unused = source == PieceSource::llama_cpp;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const ScoredPiece& piece = pieces[id];
    const auto token = static_cast<Token>(id);
    if (piece.type == PieceType::normal || (piece.type == PieceType::unused && finds_unused)) {
      unigram->add_entry(piece.text, token, piece.score);
    } else if (piece.type == PieceType::user_defined) {  // preferred to whatever else spans the same text
      const double bonus = static_cast<double>(piece.text.size()) * largest - 0.1;
      unigram->add_entry(piece.text, token, source == PieceSource::llama_cpp ? 0 : bonus);
    }
  }
  return unigram;
}

}  // namespace

TokenDecoder piece_decoder() {
  TokenDecoder decoder;
  decoder.add(token_decoders::replace(std::string(space_mark), " "));
  return decoder;
}

void add_pieces(const std::vector<ScoredPiece>& pieces, PieceKind kind, PieceSource source, const std::string& origin,
                TokenizerPartsBuilder& builder) {
  if (pieces.empty()) throw Error(origin + ": has no entries");
  if (pieces.size() > static_cast<std::size_t>(token_max)) throw Error(origin + ": has too many entries");
  builder.reserve(pieces.size());
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (id + ahead < pieces.size()) builder.expect_entry(pieces[id + ahead].text);
    add_piece(pieces[id], static_cast<Token>(id), kind, source, origin, builder);
  }
  UnknownText unknown = unknown_text(pieces, origin);
  builder.parts().model = kind == PieceKind::bpe ? make_bpe(pieces, source, origin, std::move(unknown))
                                                 : make_unigram(pieces, source, std::move(unknown));
}

}  // namespace draftproof
