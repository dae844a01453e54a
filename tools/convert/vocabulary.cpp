// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/chat/chat_template.h"
#include "ref/formats/printable.h"
#include "ref/text/gguf_pre_tokenizers.h"
#include "ref/text/scored_pieces.h"
#include "ref/text/tokenizer.h"
#include "tools/convert/gguf_model.h"

namespace draftproof {
namespace {

enum Type : std::int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// The entries of a tokenizer.json by id, gaps filled.
struct Entries {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
};

Entries read_entries(const Json& root, int vocabulary) {
  const Json entries = root.at("model").at("vocab");
  Entries result;
  result.texts.resize(static_cast<std::size_t>(vocabulary));
  result.types.assign(result.texts.size(), Type::unused);
  const auto put = [&](const Json& id, const std::string& text, Type type) {
    const auto at = static_cast<std::size_t>(id.integer(0, vocabulary - 1));
    result.texts[at] = text;
    result.types[at] = type;
  };
  for (const std::string& text : entries.fields()) put(entries.at(text), text, Type::normal);
  if (const auto added = root.find("added_tokens")) {
    for (std::size_t i = 0; i < added->size(); ++i) {
      const Json token = (*added)[i];
      put(token.at("id"), token.at("content").string(),
          token.at("special").boolean() ? Type::control : Type::user_defined);
    }
  }
  for (std::size_t id = 0; id < result.texts.size(); ++id) {
    if (result.types[id] == Type::unused) result.texts[id] = "[PAD" + std::to_string(id) + "]";
  }
  return result;
}

/// The merges as pairs, in order.
std::vector<std::pair<std::string, std::string>> read_merges(const Json& model) {
  std::vector<std::pair<std::string, std::string>> merges;
  const Json list = model.at("merges");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json merge = list[i];
    if (merge.is_array()) {
      merges.emplace_back(merge[0].string(), merge[1].string());
      continue;
    }
    const std::size_t space = merge.string().find(' ');
    if (space == std::string::npos) merge.fail("must be two texts with a space between them");
    merges.emplace_back(merge.string().substr(0, space), merge.string().substr(space + 1));
  }
  return merges;
}

std::vector<std::string> in_one(const std::vector<std::pair<std::string, std::string>>& merges) {
  std::vector<std::string> both;
  for (const auto& [left, right] : merges) both.push_back(left + " " + right);
  return both;
}

/// The expressions by which the file divides a text, in order.
std::vector<std::string> expressions_of(const Json& root) {
  std::vector<std::string> expressions;
  const auto field = root.find("pre_tokenizer");
  if (!field) return expressions;
  const auto add = [&](const Json& step) {
    const std::string type = step.at("type").string();
    if (type == "Split") {
      const auto expression = step.at("pattern").find("Regex");
      if (expression) expressions.push_back(expression->string());
    } else if (type == "ByteLevel" && step.find("use_regex") && step.at("use_regex").boolean()) {
      expressions.emplace_back("");  // GPT-2's own
    }
  };
  if (const auto steps = field->find("pretokenizers")) {
    for (std::size_t i = 0; i < steps->size(); ++i) add((*steps)[i]);
  } else {
    add(*field);
  }
  return expressions;
}

/// Returns llama.cpp's name of the way in which the file divides a text.
std::string pre_tokenizer_name(const Json& root) {
  const std::vector<std::string> expressions = expressions_of(root);
  if (expressions == std::vector<std::string>{""}) return "gpt-2";
  const auto whole = root.at("model").find("ignore_merges");
  for (const GgufPreTokenizer& kind : gguf_pre_tokenizers()) {
    if (kind.expressions == expressions && kind.takes_whole == (whole && whole->boolean())) {
      return std::string(kind.names.front());
    }
  }
  root.find("pre_tokenizer").value_or(root).fail("is none that llama.cpp has a name for, so a GGUF cannot hold it");
}

void add_byte_level(const Json& root, int vocabulary, GgufFields& fields) {
  const Entries entries = read_entries(root, vocabulary);
  fields.text("tokenizer.ggml.model", "gpt2");
  fields.text("tokenizer.ggml.pre", pre_tokenizer_name(root));
  fields.texts("tokenizer.ggml.tokens", entries.texts);
  fields.integers("tokenizer.ggml.token_type", entries.types);
  fields.texts("tokenizer.ggml.merges", in_one(read_merges(root.at("model"))));
}

/// "<0x0A>"
bool stands_for_a_byte(const std::string& text) {
  return text.size() == 6 && text.starts_with("<0x") && text.back() == '>';
}

/// Whether the file puts a space before a text.
bool adds_space(const Json& root) {
  const auto normalizer = root.find("normalizer");
  const auto is_prepend = [](const Json& step) { return step.at("type").string() == "Prepend"; };
  if (normalizer && is_prepend(*normalizer)) return true;
  if (const auto steps = normalizer ? normalizer->find("normalizers") : std::nullopt) {
    for (std::size_t i = 0; i < steps->size(); ++i) {
      if (is_prepend((*steps)[i])) return true;
    }
  }
  const auto pieces = root.find("pre_tokenizer");
  if (!pieces || pieces->at("type").string() != "Metaspace") return false;
  const auto scheme = pieces->find("prepend_scheme");
  return !scheme || scheme->string() != "never";
}

/// Merges by score: that of a piece falls with the place of the first merge that makes it.
void add_sentencepiece(const Json& root, int vocabulary, GgufFields& fields) {
  Entries entries = read_entries(root, vocabulary);
  std::map<std::string, float> scores;
  for (const auto& [left, right] : read_merges(root.at("model"))) {
    scores.try_emplace(left + right, -static_cast<float>(scores.size()));
  }
  std::vector<float> values;
  const auto unknown_text = root.at("model").find("unk_token");
  for (std::size_t id = 0; id < entries.texts.size(); ++id) {
    const std::string& text = entries.texts[id];
    if (entries.types[id] == Type::normal && stands_for_a_byte(text)) entries.types[id] = Type::byte;
    if (unknown_text && text == unknown_text->string()) entries.types[id] = Type::unknown;
    const auto found = scores.find(text);
    values.push_back(found == scores.end() ? -static_cast<float>(scores.size()) : found->second);
  }
  fields.text("tokenizer.ggml.model", "llama");
  fields.text("tokenizer.ggml.pre", "default");
  fields.texts("tokenizer.ggml.tokens", entries.texts);
  fields.numbers("tokenizer.ggml.scores", values);
  fields.integers("tokenizer.ggml.token_type", entries.types);
  fields.truth("tokenizer.ggml.add_space_prefix", adds_space(root));
}

/// The same of a tokenizer.model, which has the scores.
void add_sentencepiece(const std::filesystem::path& file, int vocabulary, GgufFields& fields) {
  const SentencePieceBpe model = read_sentencepiece_bpe(file);
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const ScoredPiece& piece : model.pieces) {
    texts.push_back(piece.text);
    scores.push_back(static_cast<float>(piece.score));
    types.push_back(static_cast<std::int32_t>(piece.type));
  }
  while (texts.size() < static_cast<std::size_t>(vocabulary)) {
    texts.push_back("[PAD" + std::to_string(texts.size()) + "]");
    scores.push_back(-static_cast<float>(texts.size()));
    types.push_back(Type::unused);
  }
  fields.text("tokenizer.ggml.model", "llama");
  fields.text("tokenizer.ggml.pre", "default");
  fields.texts("tokenizer.ggml.tokens", texts);
  fields.numbers("tokenizer.ggml.scores", scores);
  fields.integers("tokenizer.ggml.token_type", types);
  fields.truth("tokenizer.ggml.add_space_prefix", model.adds_space);
}

void add_gemma4(const Json& root, int vocabulary, GgufFields& fields) {
  const Entries entries = read_entries(root, vocabulary);
  fields.text("tokenizer.ggml.model", "gemma4");
  fields.texts("tokenizer.ggml.tokens", entries.texts);
  fields.integers("tokenizer.ggml.token_type", entries.types);
  fields.texts("tokenizer.ggml.merges", in_one(read_merges(root.at("model"))));
}

/// tokenizer_config.json; an empty object when there is none.
Json tokenizer_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer_config.json";
  return is_present(file) ? Json::read(file) : Json::parse("{}", file.string());
}

/// Special tokens by role: what the tokenizer_config says, and what stands before and after every text.
void add_special_tokens(const std::filesystem::path& folder, const Tokenizer& tokenizer, GgufFields& fields) {
  const Json config = tokenizer_config(folder);
  const std::vector<Token> plain = tokenizer.encode("a", false);
  const std::vector<Token> whole = tokenizer.encode("a", true);
  const auto at = std::ranges::search(whole, plain).begin() - whole.begin();
  const bool adds_bos = at == 1;
  const bool adds_eos = whole.size() == plain.size() + static_cast<std::size_t>(at) + 1;
  if (at > 1 || whole.size() > plain.size() + static_cast<std::size_t>(at) + 1) {
    throw Error(folder.string() +
                ": its tokenizer adds more than one token before or after a text, which a GGUF "
                "cannot say");
  }
  const auto id_of = [&](const char* field) -> std::optional<Token> {
    const auto named = config.find(field);
    if (!named) return std::nullopt;
    const Token id = tokenizer.find(named->is_object() ? named->at("content").string() : named->string());
    return id < 0 ? std::nullopt : std::optional(id);
  };
  const auto put = [&](const char* role, std::optional<Token> id) {
    const std::string key = std::string("tokenizer.ggml.") + role + "_token_id";
    if (id) fields.size(key, static_cast<std::uint32_t>(*id));
  };
  put("bos", adds_bos ? whole.front() : id_of("bos_token"));
  put("eos", adds_eos ? whole.back() : id_of("eos_token"));
  put("padding", id_of("pad_token"));
  fields.truth("tokenizer.ggml.add_bos_token", adds_bos);
  fields.truth("tokenizer.ggml.add_eos_token", adds_eos);
}

/// The name of a template in a GGUF: as llama.cpp's converter has it, of letters, digits and '_'.
std::string name_in_gguf(std::string name) {
  const auto kept = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  std::ranges::replace_if(
      name, [&](char c) { return !kept(c); }, '_');
  return name;
}

/// The default template, and others with a list of their names.
void add_chat_templates(const std::filesystem::path& folder, GgufFields& fields) {
  std::vector<std::string> names;
  for (const auto& [name, source] : template_sources(folder)) {
    if (name == "default") {
      fields.text(gguf_template_key, source.text);
      continue;
    }
    names.push_back(name_in_gguf(name));
    if (std::ranges::count(names, names.back()) > 1) {
      throw Error(source.origin + ": is the second template that a GGUF would name " + in_quotes(names.back()) +
                  "; give it another name");
    }
    fields.text(gguf_template_key + ("." + names.back()), source.text);
  }
  if (!names.empty()) fields.texts("tokenizer.chat_templates", names);
}

}  // namespace

std::filesystem::path tokenizer_file(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (is_present(folder / name)) return folder / name;
  }
  throw Error(folder.string() +
              ": has neither tokenizer.json nor tokenizer.model; give the folder of one with "
              "--tokenizer");
}

void add_vocabulary(const std::filesystem::path& folder, const std::string& architecture, int vocabulary,
                    GgufFields& fields) {
  const std::filesystem::path file = tokenizer_file(folder);
  const Tokenizer tokenizer = Tokenizer::load(file);  // refuses what is contradictory
  if (tokenizer.vocabulary() > vocabulary) {
    throw Error(file.string() + ": has " + std::to_string(tokenizer.vocabulary()) + " tokens, but the model only " +
                std::to_string(vocabulary));
  }
  if (file.filename() == "tokenizer.model") {
    add_sentencepiece(file, vocabulary, fields);
  } else {
    const Json root = Json::read(file);
    const Json model = root.at("model");
    const auto type = model.find("type");
    if (type && type->string() != "BPE") type->fail(in_quotes(type->string()) + " cannot be written to a GGUF yet");
    const auto fallback = model.find("byte_fallback");
    const bool characters = fallback && fallback->boolean();
    if (!characters) add_byte_level(root, vocabulary, fields);
    else if (architecture.starts_with("gemma4")) add_gemma4(root, vocabulary, fields);
    else add_sentencepiece(root, vocabulary, fields);
  }
  add_special_tokens(folder, tokenizer, fields);
  add_chat_templates(folder, fields);
}

}  // namespace draftproof
