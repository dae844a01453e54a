// SPDX-License-Identifier: MIT
// Reads the tokenizer of a GGUF (tokenizer.ggml.*), for byte-level BPE. The expressions and flags for each name in
// tokenizer.ggml.pre are those of llama.cpp's llama-vocab.cpp. As there, nothing is normalized, even where the same
// model's tokenizer.json requires NFC. Control and user-defined tokens are cut out of every text.
#include "ref/base/error.h"
#include "ref/formats/gguf.h"
#include "ref/formats/printable.h"
#include "ref/text/tokenizer_parts.h"

namespace draftproof {
namespace {

struct PreTokenizerKind {
  std::string_view name;
  std::vector<std::string> expressions;
  bool ignore_merges;
  bool adds_bos;  // used when the file does not specify it
};

const std::vector<PreTokenizerKind>& pre_tokenizer_kinds() {
  static const std::string words_before_numbers = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  static const std::string rest_after_numbers = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  static const std::vector<PreTokenizerKind> kinds = {
      {"gpt-2", {gpt2_pattern}, false, false},
      {"qwen2", {words_before_numbers + R"(\p{N})" + rest_after_numbers}, false, false},
      {"llama-bpe", {words_before_numbers + R"(\p{N}{1,3})" + rest_after_numbers}, true, true},
      {"deepseek-coder",
       {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+", R"(\p{N})"},
       false,
       false},
      {"falcon",
       {R"([\p{P}\$\+<=>\^~\|`]+)", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
        "[0-9][0-9][0-9]"},
       false,
       false}};
  return kinds;
}

enum TokenType : std::int64_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5 };

class Fields {
 public:
  Fields(const std::string& file, const GgufMetadata& values) : name_(file), values_(values) {}

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

 private:
  std::string name_;
  const GgufMetadata& values_;
};

const PreTokenizerKind& find_kind(const Fields& fields) {
  const std::string field = "tokenizer.ggml.pre";
  const auto& name = fields.at<std::string>(field);
  std::string known;
  for (const PreTokenizerKind& kind : pre_tokenizer_kinds()) {
    if (kind.name == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw Error(fields.where(field) + ": " + in_quotes(name) + " is not implemented; implemented are " + known);
}

void add_tokens(const Fields& fields, TokenizerPartsBuilder& builder) {
  const auto& tokens = fields.at<std::vector<std::string>>("tokenizer.ggml.tokens");
  const auto& types = fields.at<std::vector<std::int64_t>>("tokenizer.ggml.token_type");
  const std::string tokens_origin = fields.where("tokenizer.ggml.tokens");
  const std::string types_origin = fields.where("tokenizer.ggml.token_type");
  if (tokens.size() > static_cast<std::size_t>(token_most)) throw Error(tokens_origin + ": has too many tokens");
  if (types.size() != tokens.size()) throw Error(types_origin + ": is not as long as tokenizer.ggml.tokens");
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    const auto id = static_cast<Token>(index);
    switch (types[index]) {
      case normal:
      case unused:
        builder.add_entry(tokens[index], id, tokens_origin);
        break;
      case unknown:
      case control:
      case user_defined: {
        AddedToken added;
        added.id = id;
        added.content = tokens[index];
        added.special = types[index] != user_defined;
        builder.add_token(std::move(added), false, tokens_origin);
        break;
      }
      default:
        throw Error(types_origin + ": type " + std::to_string(types[index]) + " is not implemented for byte-level BPE");
    }
  }
}

/// Returns the id in `field` if the flag `when` (or `otherwise`, when the flag is missing) is true.
std::vector<Token> added_around(const Fields& fields, const std::string& when, bool otherwise, const std::string& field,
                                const TokenizerPartsBuilder& builder) {
  const bool* wanted = fields.find<bool>(when);
  if (!(wanted != nullptr ? *wanted : otherwise)) return {};
  const auto id = fields.at<std::uint64_t>(field);
  if (id > static_cast<std::uint64_t>(token_most) || !builder.has_token(static_cast<std::int64_t>(id))) {
    throw Error(fields.where(field) + ": id " + std::to_string(id) + " is not a token");
  }
  return {static_cast<Token>(id)};
}

}  // namespace

TokenizerParts read_tokenizer_gguf(const std::string& file, const GgufMetadata& metadata) {
  const Fields fields(file, metadata);
  const auto& model = fields.at<std::string>("tokenizer.ggml.model");
  if (model != "gpt2") {
    throw Error(fields.where("tokenizer.ggml.model") + ": " + in_quotes(model) + " is not implemented; only gpt2 is");
  }
  const PreTokenizerKind& kind = find_kind(fields);
  TokenizerPartsBuilder builder(fields.where("tokenizer.ggml.tokens"), false);
  TokenizerParts& parts = builder.parts();
  for (const std::string& expression : kind.expressions) {
    parts.pre_tokenizer.before_space.emplace_back(expression, fields.where("tokenizer.ggml.pre"));
  }
  parts.ignore_merges = kind.ignore_merges;
  add_tokens(fields, builder);
  const auto& merges = fields.at<std::vector<std::string>>("tokenizer.ggml.merges");
  parts.bpe.reserve_merges(merges.size());
  for (const std::string& merge : merges) builder.add_merge(merge, fields.where("tokenizer.ggml.merges"));
  parts.before =
      added_around(fields, "tokenizer.ggml.add_bos_token", kind.adds_bos, "tokenizer.ggml.bos_token_id", builder);
  parts.after = added_around(fields, "tokenizer.ggml.add_eos_token", false, "tokenizer.ggml.eos_token_id", builder);
  return std::move(parts);
}

}  // namespace draftproof
