// SPDX-License-Identifier: MIT
// Reads tokenizer.json of Hugging Face's `tokenizers`: BPE of bytes, BPE of characters, and unigram models. Every field
// is either read, known to affect offsets only, or rejected by name.
#include <algorithm>
#include <initializer_list>
#include <limits>

#include "ref/base/utf8.h"
#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "ref/text/base64.h"
#include "ref/text/byte_alphabet.h"
#include "ref/text/byte_bpe.h"
#include "ref/text/character_bpe.h"
#include "ref/text/tokenizer_parts.h"
#include "ref/text/unicode.h"
#include "ref/text/unigram.h"

namespace draftproof {
namespace {

constexpr std::size_t steps_max = 64;            // of one kind
constexpr std::size_t content_bytes_max = 4096;  // of a step

void refuse_other_fields(const Json& object, std::initializer_list<std::string_view> known) {
  if (!object.is_object()) object.fail("is not an object");
  for (const std::string& field : object.fields()) {
    if (std::find(known.begin(), known.end(), field) == known.end()) {
      object.fail("has the field " + in_quotes(field) + ", which is not implemented");
    }
  }
}

void refuse_present(const Json& object, std::string_view field) {
  if (const auto value = object.find(field)) value->fail("is not implemented; only null is");
}

bool flag(const Json& object, std::string_view field, bool absent) {
  const auto value = object.find(field);
  return value ? value->boolean() : absent;
}

void require_flag(const Json& object, std::string_view field, bool only) {
  if (flag(object, field, only) != only) object.at(field).fail(only ? "must be true" : "true is not implemented");
}

/// Returns `first` or, for a Sequence, its members; nested Sequences are flattened.
std::vector<Json> members(const Json& first, std::string_view list) {
  if (first.at("type").string() != "Sequence") return {first};
  refuse_other_fields(first, {"type", list});
  std::vector<Json> all;
  const Json inner = first.at(list);
  if (!inner.is_array()) inner.fail("is not an array");
  for (std::size_t index = 0; index < inner.size(); ++index) {
    for (Json& member : members(inner[index], list)) all.push_back(std::move(member));
  }
  if (all.size() > steps_max) inner.fail("has more than 64 steps");
  return all;
}

[[noreturn]] void refuse_type(const Json& object) {
  const Json type = object.at("type");
  type.fail(in_quotes(type.string()) + " is not implemented");
}

const std::string& content_of(const Json& text) {
  if (text.string().size() > content_bytes_max) text.fail("is longer than 4096 bytes");
  return text.string();
}

Pattern read_pattern(const Json& pattern) {
  refuse_other_fields(pattern, {"Regex", "String"});
  if (pattern.fields().size() != 1) pattern.fail("must be one of Regex and String");
  if (const auto text = pattern.find("String")) return {quote_for_pattern(text->string()), text->where()};
  const Json expression = pattern.at("Regex");
  return {expression.string(), expression.where()};
}

/// Returns the text that a step replaces; nothing when it is an expression.
std::optional<std::string> replaced_text(const Json& pattern) {
  const auto text = pattern.find("String");
  if (!text) return std::nullopt;
  if (text->string().empty()) text->fail("is empty");
  return content_of(*text);
}

Normalizer::Step read_replace(const Json& step) {
  refuse_other_fields(step, {"type", "pattern", "content"});
  const Json pattern = step.at("pattern");
  const std::string with = content_of(step.at("content"));
  refuse_other_fields(pattern, {"Regex", "String"});
  if (const auto text = replaced_text(pattern)) return normalizers::replace(*text, with);
  return normalizers::replace(read_pattern(pattern), with);
}

Normalizer::Step read_normalizer_step(const Json& step) {
  const std::string type = step.at("type").string();
  if (type == "Replace") return read_replace(step);
  if (type == "Prepend") {
    refuse_other_fields(step, {"type", "prepend"});
    return normalizers::prepend(content_of(step.at("prepend")));
  }
  if (type == "Strip") {
    refuse_other_fields(step, {"type", "strip_left", "strip_right"});
    return normalizers::strip(step.at("strip_left").boolean(), step.at("strip_right").boolean());
  }
  if (type == "Precompiled") {
    refuse_other_fields(step, {"type", "precompiled_charsmap"});
    const Json map = step.at("precompiled_charsmap");
    const auto bytes = base64_decoded(map.string());
    if (!bytes) map.fail("is not base64");
    return normalizers::replace_graphemes(Charsmap(*bytes, map.where()));
  }
  refuse_other_fields(step, {"type"});
  if (type == "NFC") return normalizers::form(unicode::Form::nfc);
  if (type == "NFD") return normalizers::form(unicode::Form::nfd);
  if (type == "NFKC") return normalizers::form(unicode::Form::nfkc);
  if (type == "NFKD") return normalizers::form(unicode::Form::nfkd);
  if (type == "Lowercase") return normalizers::lower_case();
  if (type == "StripAccents") return normalizers::strip_accents();
  if (type == "Nmt") return normalizers::nmt();
  refuse_type(step);
}

Normalizer read_normalizer(const Json& root) {
  Normalizer normalizer;
  if (const auto field = root.find("normalizer")) {
    for (const Json& step : members(*field, "normalizers")) normalizer.add(read_normalizer_step(step));
  }
  return normalizer;
}

MetaspaceStep read_metaspace(const Json& step) {
  refuse_other_fields(step, {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  using Prepend = MetaspaceStep::Prepend;
  const Json mark = step.at("replacement");
  const bool one_character = !mark.string().empty() && utf8::step(mark.string(), 0).length == mark.string().size();
  if (!one_character) mark.fail("must be one character");
  MetaspaceStep result{mark.string(), Prepend::always, flag(step, "split", true)};
  if (!flag(step, "add_prefix_space", true)) result.prepend = Prepend::never;  // the older field
  if (const auto scheme = step.find("prepend_scheme")) {
    const std::string& name = scheme->string();
    if (name != "always" && name != "first" && name != "never") {
      scheme->fail(in_quotes(name) + " is not implemented; always, first and never are");
    }
    const Prepend named = name == "always" ? Prepend::always : name == "first" ? Prepend::first : Prepend::never;
    if (result.prepend == Prepend::never && named != Prepend::never) scheme->fail("contradicts add_prefix_space");
    result.prepend = named;
  }
  return result;
}

void read_byte_level(const Json& member) {
  refuse_other_fields(member, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  flag(member, "trim_offsets", true);
}

SplitBehavior read_behavior(const Json& behavior) {
  const std::string& name = behavior.string();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  behavior.fail(in_quotes(name) + " is not implemented");
}

SplitStep read_split(const Json& split) {
  refuse_other_fields(split, {"type", "pattern", "behavior", "invert"});
  return {read_pattern(split.at("pattern")), read_behavior(split.at("behavior")), flag(split, "invert", false)};
}

SplitStep read_digits(const Json& digits) {
  refuse_other_fields(digits, {"type", "individual_digits"});
  return {{flag(digits, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", digits.where()}};
}

SplitStep read_punctuation(const Json& punctuation) {
  refuse_other_fields(punctuation, {"type", "behavior"});
  const auto behavior = punctuation.find("behavior");
  return {{R"([!-/:-@\[-`{-~)" + unicode::old_punctuation() + "]", punctuation.where()},
          behavior ? read_behavior(*behavior) : SplitBehavior::isolated};
}

SplitStep read_whitespace_split(const Json& split) {
  refuse_other_fields(split, {"type"});
  return {{"\\s", split.where()}, SplitBehavior::removed};
}

void add_byte_level(const Json& step, PreTokenizer& steps) {
  read_byte_level(step);
  if (flag(step, "add_prefix_space", true)) steps.add(PrefixSpaceStep());
  if (flag(step, "use_regex", true)) steps.add(SplitStep{{gpt2_pattern, step.where()}});
}

struct PreTokenizerField {
  PreTokenizer steps;
  bool byte_level = false;  // pieces are spelled in the byte alphabet
};

PreTokenizerField read_pre_tokenizer(const Json& root) {
  PreTokenizerField result;
  bool metaspace = false;
  const auto field = root.find("pre_tokenizer");
  for (const Json& step : field ? members(*field, "pretokenizers") : std::vector<Json>()) {
    const std::string type = step.at("type").string();
    if (result.byte_level) step.fail("comes after ByteLevel, which is not implemented");
    if (type == "Split") {
      result.steps.add(read_split(step));
    } else if (type == "Digits") {
      result.steps.add(read_digits(step));
    } else if (type == "Punctuation") {
      result.steps.add(read_punctuation(step));
    } else if (type == "WhitespaceSplit") {
      result.steps.add(read_whitespace_split(step));
    } else if (type == "Metaspace") {
      if (std::exchange(metaspace, true)) step.fail("a second Metaspace is not implemented");
      result.steps.add(read_metaspace(step));
    } else if (type == "ByteLevel") {
      result.byte_level = true;
      add_byte_level(step, result.steps);
    } else {
      refuse_type(step);
    }
  }
  return result;
}

struct DecoderField {
  TokenDecoder tokens;
  TextStart start;
};

/// Reads a Strip of all tokens together: of spaces, at the start.
std::size_t read_leading_spaces(const Json& step) {
  if (step.at("type").string() != "Strip") step.fail("comes after Fuse, which is implemented for Strip only");
  refuse_other_fields(step, {"type", "content", "start", "stop"});
  if (step.at("content").string() != " ") step.at("content").fail("after Fuse, only ' ' is implemented");
  if (step.at("stop").integer(0, 1) != 0) step.at("stop").fail("after Fuse, only 0 is implemented");
  return static_cast<std::size_t>(step.at("start").integer(0, 1024));
}

TokenDecoder::Step read_decoder_step(const Json& step, TextStart& start) {
  const std::string type = step.at("type").string();
  if (type == "ByteLevel") {
    read_byte_level(step);
    return token_decoders::byte_level();
  }
  if (type == "ByteFallback") {
    refuse_other_fields(step, {"type"});
    return token_decoders::byte_fallback();
  }
  if (type == "Metaspace") {
    const MetaspaceStep metaspace = read_metaspace(step);
    start.whole_token = metaspace.prepend != MetaspaceStep::Prepend::never;
    return token_decoders::replace(metaspace.mark, " ");
  }
  if (type == "Replace") {
    refuse_other_fields(step, {"type", "pattern", "content"});
    const Json pattern = step.at("pattern");
    refuse_other_fields(pattern, {"String"});
    const auto text = replaced_text(pattern);
    if (!text) pattern.fail("has no String");
    const std::string with = step.at("content").string();
    if (with.size() > text->size()) {
      step.at("content").fail("is longer than what it replaces, which is not implemented");
    }
    return token_decoders::replace(*text, with);
  }
  if (type == "Strip") {
    refuse_other_fields(step, {"type", "content", "start", "stop"});
    const Json content = step.at("content");
    if (content.string().empty()) content.fail("is empty");
    const auto count = [&](const char* field) { return static_cast<std::size_t>(step.at(field).integer(0, 1024)); };
    return token_decoders::strip(content.string(), count("start"), count("stop"));
  }
  refuse_type(step);
}

DecoderField read_decoder(const Json& field) {
  DecoderField result;
  bool fused = false;
  for (const Json& step : members(field, "decoders")) {
    if (fused) {
      result.start.spaces += read_leading_spaces(step);
    } else if (step.at("type").string() == "Fuse") {
      refuse_other_fields(step, {"type"});
      fused = true;
    } else {
      result.tokens.add(read_decoder_step(step, result.start));
    }
  }
  return result;
}

void read_vocabulary(const Json& vocabulary, TokenizerPartsBuilder& builder) {
  if (!vocabulary.is_object()) vocabulary.fail("is not an object");
  const std::string origin = vocabulary.where();
  for (const std::string& text : vocabulary.fields()) {
    builder.add_entry(text, static_cast<Token>(vocabulary.at(text).integer(0, token_max)), origin);
  }
}

void read_merges(const Json& merges, const TokenizerPartsBuilder& builder, MergeTable& table) {
  if (!merges.is_array()) merges.fail("is not an array");
  for (std::size_t index = 0; index < merges.size(); ++index) {
    const Json merge = merges[index];
    if (merge.is_string()) {
      builder.add_merge(table, merge.string(), merge.where());
    } else if (merge.is_array() && merge.size() == 2) {
      builder.add_merge(table, merge[0].string(), merge[1].string(), merge.where());
    } else {
      merge.fail("is neither \"LEFT RIGHT\" nor a pair");
    }
  }
}

void check_bpe(const Json& model) {
  refuse_other_fields(model, {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                              "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  refuse_present(model, "dropout");
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto text = model.find(affix);
    if (text && !text->string().empty()) text->fail("is not implemented; only null and \"\" are");
  }
}

/// Calls `act` with every entry of the vocabulary that text may become, in order of id.
template <typename Act>
void for_each_text(TokenizerPartsBuilder& builder, const Act& act) {
  const TokenizerParts& parts = builder.parts();
  for (std::size_t id = 0; id < parts.entries.size(); ++id) {
    const TokenizerParts::Entry& entry = parts.entries[id];
    const bool text = entry.taken && !entry.special && !entry.byte;
    if (text && parts.vocabulary.find(entry.text) >= 0) act(entry.text, static_cast<Token>(id));
  }
}

std::unique_ptr<const PieceModel> read_byte_bpe(const Json& model, TokenizerPartsBuilder& builder) {
  require_flag(model, "byte_fallback", false);
  flag(model, "fuse_unk", false);  // affects unk_token only
  auto bpe = std::make_unique<ByteBpe>(model.at("vocab").where());
  const bool takes_whole = flag(model, "ignore_merges", false);
  for_each_text(builder, [&](const std::string& text, Token token) {
    const auto bytes = byte_alphabet::unspell(text);
    if (!bytes) return;
    if (bytes->size() == 1) bpe->set_byte(static_cast<unsigned char>(bytes->front()), token);
    if (takes_whole) bpe->take_whole(*bytes, token);
  });
  if (const auto unknown = model.find("unk_token"); unknown && bpe->missing_byte() >= 0) {
    unknown->fail("is not implemented for a vocabulary that lacks bytes; only null is");
  }
  read_merges(model.at("merges"), builder, bpe->merges());
  return bpe;
}

/// Sets the token of every byte.
void set_bytes(const Json& vocabulary, TokenizerPartsBuilder& builder, UnknownText& unknown) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = fallback_entry(static_cast<unsigned char>(byte));
    const Token token = builder.find(text);
    if (token < 0) vocabulary.fail("has no entry " + in_quotes(text) + ", which byte_fallback needs");
    builder.parts().entries[token].byte = true;
    unknown.set_byte(static_cast<unsigned char>(byte), token);
  }
}

std::unique_ptr<const PieceModel> read_character_bpe(const Json& model, TokenizerPartsBuilder& builder) {
  const Json vocabulary = model.at("vocab");
  UnknownText unknown(vocabulary.where());
  if (flag(model, "byte_fallback", false)) set_bytes(vocabulary, builder, unknown);
  if (const auto token = model.find("unk_token")) {
    const Token id = builder.find(token->string());
    if (id < 0) token->fail(in_quotes(token->string()) + " is not in the vocabulary");
    unknown.set_unknown(id, flag(model, "fuse_unk", false));
  }
  auto bpe = std::make_unique<CharacterBpe>(std::move(unknown));
  for_each_text(builder, [&](const std::string& text, Token token) { bpe->add_entry(text, token); });
  read_merges(model.at("merges"), builder, bpe->merges());
  if (flag(model, "ignore_merges", false)) bpe->take_entries_whole();
  return bpe;
}

/// [["text", score], ...], by id.
void read_scored_vocabulary(const Json& vocabulary, TokenizerPartsBuilder& builder) {
  if (!vocabulary.is_array()) vocabulary.fail("is not an array");
  if (vocabulary.size() == 0 || vocabulary.size() > std::size_t{token_max}) vocabulary.fail("has a wrong length");
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const Json entry = vocabulary[id];
    if (!entry.is_array() || entry.size() != 2) entry.fail("is not a pair of a text and a score");
    builder.add_entry(entry[0].string(), static_cast<Token>(id), entry.where());
  }
}

std::unique_ptr<const PieceModel> read_unigram(const Json& model, TokenizerPartsBuilder& builder) {
  const Json vocabulary = model.at("vocab");
  UnknownText unknown(vocabulary.where());
  if (flag(model, "byte_fallback", false)) set_bytes(vocabulary, builder, unknown);
  Token unknown_id = -1;
  if (const auto id = model.find("unk_id")) {
    unknown_id = static_cast<Token>(id->integer(0, static_cast<std::int64_t>(vocabulary.size()) - 1));
    unknown.set_unknown(unknown_id, true);
  }
  auto unigram = std::make_unique<Unigram>(std::move(unknown));
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t id = 0; id < vocabulary.size(); ++id) smallest = std::min(smallest, vocabulary[id][1].number());
  unigram->set_smallest_score(smallest);
  for_each_text(builder, [&](const std::string& text, Token token) {
    if (token == unknown_id) return;
    unigram->add_entry(text, token, vocabulary[static_cast<std::size_t>(token)][1].number());
  });
  return unigram;
}

void read_added_tokens(const Json& tokens, TokenizerPartsBuilder& builder) {
  if (!tokens.is_array()) tokens.fail("is not an array");
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    const Json token = tokens[index];
    refuse_other_fields(token, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken added;
    added.id = static_cast<Token>(token.at("id").integer(0, token_max));
    added.content = token.at("content").string();
    added.single_word = token.at("single_word").boolean();
    added.lstrip = token.at("lstrip").boolean();
    added.rstrip = token.at("rstrip").boolean();
    added.normalized = token.at("normalized").boolean();
    added.special = token.at("special").boolean();
    builder.add_token(std::move(added), token.where());
  }
}

std::vector<Token> read_special_ids(const Json& special_tokens, const std::string& name,
                                    const TokenizerPartsBuilder& builder) {
  const Json special = special_tokens.at(name);
  refuse_other_fields(special, {"id", "ids", "tokens"});
  const Json ids = special.at("ids");
  std::vector<Token> tokens;
  for (const std::int64_t id : ids.integers(0, token_max)) {
    if (!builder.has_token(id)) ids.fail("id " + std::to_string(id) + " is not a token");
    tokens.push_back(static_cast<Token>(id));
  }
  return tokens;
}

/// Reads the special tokens around a single text from its template.
void read_template(const Json& processor, TokenizerPartsBuilder& builder) {
  refuse_other_fields(processor, {"type", "single", "pair", "special_tokens"});
  const Json single = processor.at("single");
  if (!single.is_array()) single.fail("is not an array");
  std::vector<Token> before;
  std::vector<Token> after;
  int texts = 0;
  for (std::size_t index = 0; index < single.size(); ++index) {
    const Json part = single[index];
    refuse_other_fields(part, {"SpecialToken", "Sequence"});
    if (const auto sequence = part.find("Sequence")) {
      refuse_other_fields(*sequence, {"id", "type_id"});
      if (sequence->at("id").string() != "A") sequence->at("id").fail("must be A");
      ++texts;
      continue;
    }
    const Json special = part.at("SpecialToken");
    refuse_other_fields(special, {"id", "type_id"});
    const auto tokens = read_special_ids(processor.at("special_tokens"), special.at("id").string(), builder);
    std::vector<Token>& side = texts == 0 ? before : after;
    side.insert(side.end(), tokens.begin(), tokens.end());
  }
  if (texts != 1) single.fail("must contain the sequence A once");
  TokenizerParts& parts = builder.parts();
  parts.before.insert(parts.before.begin(), before.begin(), before.end());
  parts.after.insert(parts.after.end(), after.begin(), after.end());
}

void read_post_processor(const Json& field, TokenizerPartsBuilder& builder) {
  for (const Json& member : members(field, "processors")) {
    const std::string type = member.at("type").string();
    if (type == "ByteLevel") {
      read_byte_level(member);  // offsets only
    } else if (type == "TemplateProcessing") {
      read_template(member, builder);
    } else {
      refuse_type(member);
    }
  }
}

}  // namespace

TokenizerParts read_tokenizer_json(const std::filesystem::path& file) {
  const Json root = Json::read(file);
  refuse_other_fields(root, {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                             "post_processor", "decoder", "model"});
  if (const auto version = root.find("version"); version && version->string() != "1.0") {
    version->fail(in_quotes(version->string()) + " is not implemented; only 1.0 is");
  }
  refuse_present(root, "truncation");
  refuse_present(root, "padding");
  const Json model = root.at("model");
  const auto type = model.find("type");  // files from before 2021 have none
  const bool unigram = type && type->string() == "Unigram";
  if (type && !unigram && type->string() != "BPE") refuse_type(model);
  if (unigram) refuse_other_fields(model, {"type", "unk_id", "vocab", "byte_fallback"});
  if (!unigram) check_bpe(model);

  DecoderField decoder = read_decoder(root.at("decoder"));
  PreTokenizerField pre_tokenizer = read_pre_tokenizer(root);
  if (unigram && pre_tokenizer.byte_level) model.fail("is a unigram model after ByteLevel, which is not implemented");
  TokenizerPartsBuilder builder(std::move(decoder.tokens), read_normalizer(root));
  unigram ? read_scored_vocabulary(model.at("vocab"), builder) : read_vocabulary(model.at("vocab"), builder);
  if (const auto tokens = root.find("added_tokens")) read_added_tokens(*tokens, builder);
  TokenizerParts& parts = builder.parts();
  parts.model = unigram                    ? read_unigram(model, builder)
                : pre_tokenizer.byte_level ? read_byte_bpe(model, builder)
                                           : read_character_bpe(model, builder);
  parts.pre_tokenizer = std::move(pre_tokenizer.steps);
  parts.start = decoder.start;
  if (const auto processor = root.find("post_processor")) read_post_processor(*processor, builder);
  return std::move(parts);
}

}  // namespace draftproof
