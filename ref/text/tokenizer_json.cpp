// SPDX-License-Identifier: MIT
// Reads tokenizer.json of Hugging Face's `tokenizers`, for byte-level BPE. Every field is either read, known to affect
// offsets only, or rejected by name.
#include <algorithm>
#include <initializer_list>

#include "ref/formats/json.h"
#include "ref/formats/printable.h"
#include "ref/text/tokenizer_parts.h"

namespace draftproof {
namespace {

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
  return all;
}

[[noreturn]] void refuse_type(const Json& object) {
  const Json type = object.at("type");
  type.fail(in_quotes(type.string()) + " is not implemented");
}

bool read_nfc(const Json& root) {
  const auto normalizer = root.find("normalizer");
  if (!normalizer) return false;
  bool nfc = false;
  for (const Json& member : members(*normalizer, "normalizers")) {
    if (member.at("type").string() != "NFC") refuse_type(member);
    refuse_other_fields(member, {"type"});
    nfc = true;
  }
  return nfc;
}

void read_byte_level(const Json& member) {
  refuse_other_fields(member, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  flag(member, "trim_offsets", true);
}

Pattern read_split(const Json& split) {
  refuse_other_fields(split, {"type", "pattern", "behavior", "invert"});
  const Json behavior = split.at("behavior");
  if (behavior.string() != "Isolated") behavior.fail(in_quotes(behavior.string()) + " is not implemented");
  require_flag(split, "invert", false);
  const Json pattern = split.at("pattern");
  refuse_other_fields(pattern, {"Regex", "String"});
  if (pattern.fields().size() != 1) pattern.fail("must be one of Regex and String");
  if (const auto text = pattern.find("String")) return {quote_for_pattern(text->string()), text->where()};
  const Json expression = pattern.at("Regex");
  return {expression.string(), expression.where()};
}

Pattern read_digits(const Json& digits) {
  refuse_other_fields(digits, {"type", "individual_digits"});
  return {flag(digits, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", digits.where()};
}

PreTokenizer read_pre_tokenizer(const Json& field) {
  PreTokenizer result;
  bool byte_level = false;
  for (const Json& member : members(field, "pretokenizers")) {
    const std::string type = member.at("type").string();
    if (byte_level) member.fail("comes after ByteLevel, which is not implemented");
    if (type == "Split") {
      result.before_space.push_back(read_split(member));
    } else if (type == "Digits") {
      result.before_space.push_back(read_digits(member));
    } else if (type == "ByteLevel") {
      byte_level = true;
      read_byte_level(member);
      result.prefix_space = flag(member, "add_prefix_space", true);
      if (flag(member, "use_regex", true)) result.after_space.emplace_back(gpt2_pattern, member.where());
    } else {
      refuse_type(member);
    }
  }
  if (!byte_level) field.fail("has no ByteLevel; only byte-level vocabularies are implemented");
  return result;
}

void check_decoder(const Json& decoder) {
  if (decoder.at("type").string() != "ByteLevel") refuse_type(decoder);
  read_byte_level(decoder);
}

void read_vocabulary(const Json& vocabulary, TokenizerPartsBuilder& builder) {
  if (!vocabulary.is_object()) vocabulary.fail("is not an object");
  const std::string origin = vocabulary.where();
  for (const std::string& spelled : vocabulary.fields()) {
    builder.add_entry(spelled, static_cast<Token>(vocabulary.at(spelled).integer(0, token_most)), origin);
  }
}

void read_merges(const Json& merges, TokenizerPartsBuilder& builder) {
  if (!merges.is_array()) merges.fail("is not an array");
  builder.parts().bpe.reserve_merges(merges.size());
  for (std::size_t index = 0; index < merges.size(); ++index) {
    const Json merge = merges[index];
    if (merge.is_string()) {
      builder.add_merge(merge.string(), merge.where());
    } else if (merge.is_array() && merge.size() == 2) {
      builder.add_merge(merge[0].string(), merge[1].string(), merge.where());
    } else {
      merge.fail("is neither \"LEFT RIGHT\" nor a pair");
    }
  }
}

void read_model(const Json& model, TokenizerPartsBuilder& builder) {
  refuse_other_fields(model, {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                              "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  const auto type = model.find("type");  // files from before 2021 have none
  if (type && type->string() != "BPE") refuse_type(model);
  refuse_present(model, "dropout");
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto text = model.find(affix);
    if (text && !text->string().empty()) text->fail("is not implemented; only null and \"\" are");
  }
  require_flag(model, "byte_fallback", false);
  flag(model, "fuse_unk", false);  // affects unk_token only
  read_vocabulary(model.at("vocab"), builder);
  read_merges(model.at("merges"), builder);
  builder.parts().ignore_merges = flag(model, "ignore_merges", false);
  if (const auto unknown = model.find("unk_token"); unknown && builder.missing_byte() >= 0) {
    unknown->fail("is not implemented for a vocabulary that lacks bytes; only null is");
  }
}

void read_added_tokens(const Json& tokens, TokenizerPartsBuilder& builder) {
  if (!tokens.is_array()) tokens.fail("is not an array");
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    const Json token = tokens[index];
    refuse_other_fields(token, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken added;
    added.id = static_cast<Token>(token.at("id").integer(0, token_most));
    added.content = token.at("content").string();
    added.single_word = token.at("single_word").boolean();
    added.lstrip = token.at("lstrip").boolean();
    added.rstrip = token.at("rstrip").boolean();
    added.normalized = token.at("normalized").boolean();
    added.special = token.at("special").boolean();
    builder.add_token(std::move(added), true, token.where());
  }
}

std::vector<Token> read_special_ids(const Json& special_tokens, const std::string& name,
                                    const TokenizerPartsBuilder& builder) {
  const Json special = special_tokens.at(name);
  refuse_other_fields(special, {"id", "ids", "tokens"});
  const Json ids = special.at("ids");
  std::vector<Token> tokens;
  for (const std::int64_t id : ids.integers(0, token_most)) {
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
  TokenizerPartsBuilder builder(model.at("vocab").where(), read_nfc(root));
  read_model(model, builder);
  if (const auto tokens = root.find("added_tokens")) read_added_tokens(*tokens, builder);
  builder.parts().pre_tokenizer = read_pre_tokenizer(root.at("pre_tokenizer"));
  check_decoder(root.at("decoder"));
  if (const auto processor = root.find("post_processor")) read_post_processor(*processor, builder);
  return std::move(builder.parts());
}

}  // namespace draftproof
