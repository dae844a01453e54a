// SPDX-License-Identifier: MIT
// Reads the tokenizer of a GGUF (tokenizer.ggml.*): byte-level BPE ("gpt2"), SentencePiece's BPE ("llama") and unigram
// models ("t5"), and Gemma 4's BPE of characters ("gemma4"), by the rules of llama.cpp's llama-vocab.cpp. As there,
// nothing is normalized in byte-level BPE, even where the same model's tokenizer.json requires NFC. User-defined tokens
// are cut out of every text, control tokens on request.
#include <cmath>

#include "ref/base/error.h"
#include "ref/formats/gguf.h"
#include "ref/formats/printable.h"
#include "ref/text/byte_alphabet.h"
#include "ref/text/byte_bpe.h"
#include "ref/text/character_bpe.h"
#include "ref/text/gguf_pre_tokenizers.h"
#include "ref/text/scored_pieces.h"
#include "ref/text/tokenizer_parts.h"

namespace draftproof {
namespace {

class TokenizerFields {
 public:
  TokenizerFields(const std::string& file, const GgufMetadata& values) : name_(file), values_(values) {}

  std::string where(const std::string& field) const { return name_ + ": field " + field; }

  template <typename Value>
  const Value* find(const std::string& field) const {
    const auto found = values_.find(field);
    if (found == values_.end()) return nullptr;
    const Value* value = std::get_if<Value>(&found->second);
    if (value == nullptr) throw Error(where(field) + ": has the wrong type for a tokenizer");
    return value;
  }

  template <typename Value>
  const Value& at(const std::string& field) const {
    const Value* value = find<Value>(field);
    if (value == nullptr) throw Error(where(field) + ": is missing; the file has no tokenizer we can read");
    return *value;
  }

  bool flag(const std::string& field, bool absent) const {
    const bool* value = find<bool>(field);
    return value != nullptr ? *value : absent;
  }

 private:
  std::string name_;
  const GgufMetadata& values_;
};

const GgufPreTokenizer& find_kind(const TokenizerFields& fields) {
  const std::string field = "tokenizer.ggml.pre";
  const auto& name = fields.at<std::string>(field);
  if (const GgufPreTokenizer* known = find_gguf_pre_tokenizer(name)) return *known;
  std::string all;
  for (const GgufPreTokenizer& known : gguf_pre_tokenizers()) {
    all += (all.empty() ? "" : ", ") + std::string(known.names.front());
  }
  throw Error(fields.where(field) + ": " + in_quotes(name) + " is not implemented; implemented are " + all);
}

PieceType type_of(std::int64_t number, const std::string& origin) {
  if (number < 1 || number > 6) throw Error(origin + ": type " + std::to_string(number) + " is not implemented");
  return static_cast<PieceType>(number);
}

/// Returns the tokens with their types; with scores if the kind has them.
std::vector<ScoredPiece> read_pieces(const TokenizerFields& fields, bool scored) {
  const auto& tokens = fields.at<std::vector<std::string>>("tokenizer.ggml.tokens");
  const auto& types = fields.at<std::vector<std::int64_t>>("tokenizer.ggml.token_type");
  const std::string types_origin = fields.where("tokenizer.ggml.token_type");
  const std::string scores_origin = fields.where("tokenizer.ggml.scores");
  if (tokens.size() > static_cast<std::size_t>(token_max))
    throw Error(fields.where("tokenizer.ggml.tokens") + ": has too many tokens");
  if (types.size() != tokens.size()) throw Error(types_origin + ": is not as long as tokenizer.ggml.tokens");
  const std::vector<double> none(scored ? 0 : tokens.size());
  const auto& scores = scored ? fields.at<std::vector<double>>("tokenizer.ggml.scores") : none;
  if (scores.size() != tokens.size()) throw Error(scores_origin + ": is not as long as tokenizer.ggml.tokens");
  std::vector<ScoredPiece> pieces;
  pieces.reserve(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!std::isfinite(scores[id])) throw Error(scores_origin + ": score " + std::to_string(id) + " is not finite");
    pieces.push_back({tokens[id], scores[id], type_of(types[id], types_origin)});
  }
  return pieces;
}

/// Returns the id in `field`, or `absent` when the file has none; nothing unless it is `wanted`.
std::vector<Token> added(const TokenizerFields& fields, bool wanted, const std::string& field,
                         std::optional<std::uint64_t> absent, const TokenizerPartsBuilder& builder) {
  if (!wanted) return {};
  const auto* found = fields.find<std::uint64_t>(field);
  const std::uint64_t id = found == nullptr && absent ? *absent : fields.at<std::uint64_t>(field);
  if (id > static_cast<std::uint64_t>(token_max) || !builder.has_token(static_cast<std::int64_t>(id))) {
    throw Error(fields.where(field) + ": id " + std::to_string(id) + " is not a token");
  }
  return {static_cast<Token>(id)};
}

/// What is added to a text when the file does not say.
struct AddedByDefault {
  bool bos;
  bool eos;
  std::optional<std::uint64_t> bos_id = {};
  std::optional<std::uint64_t> eos_id = {};
};

void read_added(const TokenizerFields& fields, const AddedByDefault& absent, TokenizerPartsBuilder& builder) {
  const bool bos = fields.flag("tokenizer.ggml.add_bos_token", absent.bos);
  const bool eos = fields.flag("tokenizer.ggml.add_eos_token", absent.eos);
  builder.parts().before = added(fields, bos, "tokenizer.ggml.bos_token_id", absent.bos_id, builder);
  builder.parts().after = added(fields, eos, "tokenizer.ggml.eos_token_id", absent.eos_id, builder);
}

void read_merges(const TokenizerFields& fields, const TokenizerPartsBuilder& builder, MergeTable& merges) {
  const std::string field = "tokenizer.ggml.merges";
  const std::string origin = fields.where(field);
  for (const std::string& merge : fields.at<std::vector<std::string>>(field)) builder.add_merge(merges, merge, origin);
}

/// Adds the tokens of a vocabulary with merges. Added ones decode to their text.
void add_tokens(const std::vector<ScoredPiece>& pieces, const std::string& origin, TokenizerPartsBuilder& builder) {
  builder.reserve(pieces.size());
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    const ScoredPiece& piece = pieces[index];
    const auto id = static_cast<Token>(index);
    if (piece.type == PieceType::normal || piece.type == PieceType::unused || piece.type == PieceType::byte) {
      builder.add_entry(piece.text, id, origin);
    } else {
      AddedToken added;
      added.id = id;
      added.content = piece.text;
      added.special = piece.type != PieceType::user_defined;
      builder.add_token(std::move(added), origin, piece.text);
    }
  }
}

TokenizerParts read_byte_level(const TokenizerFields& fields) {
  const GgufPreTokenizer& kind = find_kind(fields);
  TokenDecoder decoder;
  decoder.add(token_decoders::byte_level());
  TokenizerPartsBuilder builder(std::move(decoder), Normalizer());
  TokenizerParts& parts = builder.parts();
  for (const std::string& expression : kind.expressions) {
    parts.pre_tokenizer.add(SplitStep{{expression, fields.where("tokenizer.ggml.pre")}});
  }
  const std::vector<ScoredPiece> pieces = read_pieces(fields, false);
  auto bpe = std::make_unique<ByteBpe>(fields.where("tokenizer.ggml.tokens"));
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const PieceType type = pieces[id].type;
    if (type == PieceType::byte) {
      throw Error(fields.where("tokenizer.ggml.token_type") + ": type 6 is not implemented for byte-level BPE");
    }
    const auto bytes = byte_alphabet::unspell(pieces[id].text);
    if (!bytes || (type != PieceType::normal && type != PieceType::unused)) continue;
    if (bytes->size() == 1) bpe->set_byte(static_cast<unsigned char>(bytes->front()), static_cast<Token>(id));
    if (kind.takes_whole) bpe->take_whole(*bytes, static_cast<Token>(id));
  }
  add_tokens(pieces, fields.where("tokenizer.ggml.tokens"), builder);
  read_merges(fields, builder, bpe->merges());
  parts.model = std::move(bpe);
  read_added(fields, {.bos = kind.adds_bos, .eos = false}, builder);
  return std::move(parts);
}

/// Spaces are written as U+2581 and merges work on characters; a run of line feeds that is a token is taken whole. The
/// BOS is always added, whatever the file says: Google's first files say that it is not.
TokenizerParts read_gemma4(const TokenizerFields& fields) {
  TokenDecoder decoder = piece_decoder();
  decoder.add(token_decoders::byte_fallback());
  Normalizer normalizer;
  normalizer.add(normalizers::replace(" ", std::string(space_mark)));
  TokenizerPartsBuilder builder(std::move(decoder), std::move(normalizer));
  TokenizerParts& parts = builder.parts();
  parts.pre_tokenizer.add(SplitStep{{R"([^\n]+|[\n]+)", fields.where("tokenizer.ggml.model")}});
  const std::vector<ScoredPiece> pieces = read_pieces(fields, false);
  add_tokens(pieces, fields.where("tokenizer.ggml.tokens"), builder);
  UnknownText unknown(fields.where("tokenizer.ggml.tokens"));
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const auto byte = byte_of_fallback_entry(pieces[id].text);
    if (!byte) continue;
    unknown.set_byte(*byte, static_cast<Token>(id));
    parts.entries[id].byte = true;
  }
  auto bpe = std::make_unique<CharacterBpe>(std::move(unknown));
  bpe->take_line_feeds_whole();
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (!parts.entries[id].special && !parts.entries[id].byte) bpe->add_entry(pieces[id].text, static_cast<Token>(id));
  }
  read_merges(fields, builder, bpe->merges());
  parts.model = std::move(bpe);
  parts.before = added(fields, true, "tokenizer.ggml.bos_token_id", {}, builder);
  parts.after =
      added(fields, fields.flag("tokenizer.ggml.add_eos_token", false), "tokenizer.ggml.eos_token_id", {}, builder);
  return std::move(parts);
}

TokenizerParts read_sentencepiece_bpe(const TokenizerFields& fields) {
  const bool space = fields.flag("tokenizer.ggml.add_space_prefix", true);
  Normalizer normalizer;
  if (space) normalizer.add(normalizers::prepend(" "));
  normalizer.add(normalizers::replace(" ", std::string(space_mark)));
  TokenizerPartsBuilder builder(piece_decoder(), std::move(normalizer));
  add_pieces(read_pieces(fields, true), PieceKind::bpe, PieceSource::llama_cpp, fields.where("tokenizer.ggml.tokens"),
             builder);
  builder.parts().start.spaces = space ? 1 : 0;
  read_added(fields, {.bos = true, .eos = false, .bos_id = 1, .eos_id = 2}, builder);
  return std::move(builder.parts());
}

/// Normalized by SentencePiece's own rules, which llama.cpp follows but for a U+2581 at the end of a text.
TokenizerParts read_unigram(const TokenizerFields& fields) {
  normalizers::SentencePiece rules;
  rules.remove_extra_spaces = fields.flag("tokenizer.ggml.remove_extra_whitespaces", false);
  rules.add_space = fields.flag("tokenizer.ggml.add_space_prefix", false);
  if (const auto* map = fields.find<std::vector<std::uint64_t>>("tokenizer.ggml.precompiled_charsmap")) {
    std::string bytes;
    for (const std::uint64_t byte : *map) bytes += static_cast<char>(static_cast<unsigned char>(byte));
    rules.map = std::make_shared<const Charsmap>(bytes, fields.where("tokenizer.ggml.precompiled_charsmap"));
  }
  TokenizerPartsBuilder builder(piece_decoder(), Normalizer());
  add_pieces(read_pieces(fields, true), PieceKind::unigram, PieceSource::llama_cpp,
             fields.where("tokenizer.ggml.tokens"), builder);
  TokenizerParts& parts = builder.parts();
  parts.start.spaces = rules.add_space ? 1 : 0;
  parts.normalizer.add(normalizers::sentencepiece(std::move(rules)));
  read_added(fields, {.bos = false, .eos = true, .bos_id = {}, .eos_id = 1}, builder);
  return std::move(parts);
}

}  // namespace

TokenizerParts read_tokenizer_gguf(const std::string& file, const GgufMetadata& metadata) {
  const TokenizerFields fields(file, metadata);
  const auto& model = fields.at<std::string>("tokenizer.ggml.model");
  if (model == "gpt2") return read_byte_level(fields);
  if (model == "llama") return read_sentencepiece_bpe(fields);
  if (model == "gemma4") return read_gemma4(fields);
  if (model == "t5") return read_unigram(fields);
  throw Error(fields.where("tokenizer.ggml.model") + ": " + in_quotes(model) +
              " is not implemented; gpt2, llama, gemma4 and t5 are");
}

}  // namespace draftproof
