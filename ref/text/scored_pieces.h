// SPDX-License-Identifier: MIT
// A vocabulary as SentencePiece stores it: pieces with scores and types, spaces written as U+2581.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ref/text/tokenizer_parts.h"

namespace draftproof {

enum class PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct ScoredPiece {
  std::string text;
  double score = 0;
  PieceType type = PieceType::normal;
};

enum class PieceKind { bpe, unigram };

/// Whose rules hold where they differ.
enum class PieceSource {
  sentencepiece,  // user-defined pieces stand in normalized text; unused pieces are never found
  llama_cpp,      // user-defined pieces stand in the text itself, with spaces; unused pieces are like others
};

/// What a tokenizer.model of the kind of Llama 2's holds: BPE that normalizes nothing but spaces.
struct SentencePieceBpe {
  std::vector<ScoredPiece> pieces;  // by id
  bool adds_space = true;           // before a text
};

/// Reads a tokenizer.model. Throws Error for one of another kind.
SentencePieceBpe read_sentencepiece_bpe(const std::filesystem::path& file);

/// Returns the decoder of the normal pieces.
TokenDecoder piece_decoder();

/// Adds the pieces, by id, and the model that they are. `origin`: "FILE: field NAME".
void add_pieces(const std::vector<ScoredPiece>& pieces, PieceKind kind, PieceSource source, const std::string& origin,
                TokenizerPartsBuilder& builder);

}  // namespace draftproof
