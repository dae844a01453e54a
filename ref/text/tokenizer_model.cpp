// SPDX-License-Identifier: MIT
// Reads tokenizer.model, the ModelProto of SentencePiece (sentencepiece_model.proto): BPE and unigram models. Fields
// that describe how the model was trained are skipped; a field of the normalizer that is not implemented is rejected.
#include <limits>
#include <string>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "ref/formats/protobuf.h"
#include "ref/text/scored_pieces.h"

namespace draftproof {
namespace {

struct NormalizerSpec {
  std::string_view charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

/// The contents of the file that matter.
struct SentencePieceModel {
  std::vector<ScoredPiece> pieces;
  PieceKind kind = PieceKind::unigram;
  std::int64_t bos = 1;
  std::int64_t eos = 2;
  NormalizerSpec normalizer;
};

ScoredPiece read_piece(std::string_view message, const std::string& origin) {
  ScoredPiece piece;
  for (ProtobufFields fields(message, origin); fields.next();) {
    if (fields.number() == 1) piece.text = fields.text("piece");
    if (fields.number() == 2) piece.score = fields.real("score");
    if (fields.number() == 3) {
      const std::int64_t type = fields.integer("type");
      if (type < 1 || type > 6) throw Error(origin + ": type " + std::to_string(type) + " is not implemented");
      piece.type = static_cast<PieceType>(type);
    }
  }
  return piece;
}

void read_trainer(std::string_view message, const std::string& origin, SentencePieceModel& model) {
  for (ProtobufFields fields(message, origin); fields.next();) {
    if (fields.number() == 3) {
      const std::int64_t type = fields.integer("model_type");
      if (type != 1 && type != 2) {
        throw Error(origin + ": model_type " + std::to_string(type) +
                    " is not implemented; 1 (unigram) and 2 (BPE) are");
      }
      model.kind = type == 1 ? PieceKind::unigram : PieceKind::bpe;
    }
    if (fields.number() == 24 && fields.truth("treat_whitespace_as_suffix")) {
      throw Error(origin + ": treat_whitespace_as_suffix is not implemented");
    }
    if (fields.number() == 41) model.bos = fields.integer("bos_id");
    if (fields.number() == 42) model.eos = fields.integer("eos_id");
  }
}

NormalizerSpec read_normalizer(std::string_view message, const std::string& origin) {
  NormalizerSpec spec;
  for (ProtobufFields fields(message, origin); fields.next();) {
    if (fields.number() == 2) spec.charsmap = fields.bytes("precompiled_charsmap");
    if (fields.number() == 3) spec.add_dummy_prefix = fields.truth("add_dummy_prefix");
    if (fields.number() == 4) spec.remove_extra_whitespaces = fields.truth("remove_extra_whitespaces");
    if (fields.number() == 5) spec.escape_whitespaces = fields.truth("escape_whitespaces");
  }
  return spec;
}

SentencePieceModel read_model(std::string_view bytes, const std::string& name) {
  SentencePieceModel model;
  for (ProtobufFields fields(bytes, name); fields.next();) {
    const auto message = [&](const std::string& field) { return fields.bytes(field); };
    if (fields.number() == 1) {
      const std::string field = "pieces[" + std::to_string(model.pieces.size()) + "]";
      model.pieces.push_back(read_piece(message(field), name + ": field " + field));
    }
    if (fields.number() == 2) read_trainer(message("trainer_spec"), name + ": field trainer_spec", model);
    if (fields.number() == 3) {
      model.normalizer = read_normalizer(message("normalizer_spec"), name + ": field normalizer_spec");
    }
    if (fields.number() == 5) {
      const std::string origin = name + ": field denormalizer_spec";
      if (!read_normalizer(message("denormalizer_spec"), origin).charsmap.empty()) {
        throw Error(origin + ": is not implemented");
      }
    }
  }
  return model;
}

/// The pieces of `model` are distinct.
Normalizer make_normalizer(const SentencePieceModel& model, const std::string& origin) {
  normalizers::SentencePiece rules;
  rules.remove_extra_spaces = model.normalizer.remove_extra_whitespaces;
  rules.add_space = model.normalizer.add_dummy_prefix;
  rules.mark_spaces = model.normalizer.escape_whitespaces;
  if (!model.normalizer.charsmap.empty()) {
    rules.map = std::make_shared<const Charsmap>(model.normalizer.charsmap, origin);
    std::vector<AddedToken> kept;
    for (const ScoredPiece& piece : model.pieces) {
      if (piece.type == PieceType::user_defined) kept.emplace_back().pattern = piece.text;
    }
    rules.kept = std::make_shared<const AddedTokenCutter>(std::move(kept));
  }
  Normalizer normalizer;
  normalizer.add(normalizers::sentencepiece(std::move(rules)));
  return normalizer;
}

/// Returns how many spaces at the start are no part of a decoded text.
std::size_t spaces_at_start(const NormalizerSpec& spec) {
  if (spec.remove_extra_whitespaces) return std::numeric_limits<std::size_t>::max();
  return spec.add_dummy_prefix ? 1 : 0;
}

/// Returns the flag of the tokenizer_config.json beside the model; `default_value` when there is none.
bool configured(const std::filesystem::path& file, std::string_view flag, bool default_value) {
  const std::filesystem::path config = file.parent_path() / "tokenizer_config.json";
  if (!is_present(config)) return default_value;
  const auto value = Json::read(config).find(flag);
  return value ? value->boolean() : default_value;
}

std::vector<Token> added_around(const std::string& name, const std::string& field, std::int64_t id, bool wanted,
                                const TokenizerPartsBuilder& builder) {
  if (!wanted || id < 0) return {};
  if (!builder.has_token(id)) throw Error(name + ": field " + field + ": id " + std::to_string(id) + " is not a token");
  return {static_cast<Token>(id)};
}

}  // namespace

SentencePieceBpe read_sentencepiece_bpe(const std::filesystem::path& file) {
  const std::string name = printable(file.string());
  const std::string bytes = read_tokenizer_file(file);
  SentencePieceModel model = read_model(bytes, name);
  const NormalizerSpec& rules = model.normalizer;
  const bool plain = rules.charsmap.empty() && !rules.remove_extra_whitespaces && rules.escape_whitespaces;
  if (model.kind != PieceKind::bpe || !plain) {
    throw Error(name + ": is not BPE that normalizes nothing but spaces, as Llama 2's is");
  }
  return {std::move(model.pieces), rules.add_dummy_prefix};
}

TokenizerParts read_tokenizer_model(const std::filesystem::path& file) {
  const std::string name = printable(file.string());
  const std::string bytes = read_tokenizer_file(file);
  const SentencePieceModel model = read_model(bytes, name);
  TokenizerPartsBuilder builder(piece_decoder(), Normalizer());
  add_pieces(model.pieces, model.kind, PieceSource::sentencepiece, name + ": field pieces", builder);
  TokenizerParts& parts = builder.parts();
  parts.normalizer = make_normalizer(model, name + ": field normalizer_spec");
  parts.start.spaces = spaces_at_start(model.normalizer);
  // SentencePiece adds nothing by itself; the models do: Llama's a BOS, T5's an EOS.
  const bool bpe = model.kind == PieceKind::bpe;
  parts.before = added_around(name, "trainer_spec.bos_id", model.bos, configured(file, "add_bos_token", bpe), builder);
  parts.after = added_around(name, "trainer_spec.eos_id", model.eos, configured(file, "add_eos_token", !bpe), builder);
  return std::move(parts);
}

}  // namespace draftproof
