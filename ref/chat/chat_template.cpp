// SPDX-License-Identifier: MIT
#include "ref/chat/chat_template.h"

#include <algorithm>
#include <set>

#include "ref/base/error.h"
#include "ref/base/incoming.h"
#include "ref/base/presence.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

std::string source_in(const std::filesystem::path& file) {
  Incoming bytes(file);
  std::string source(jinja::Template::source_bytes_max + 1, '\0');
  source.resize(static_cast<std::size_t>(bytes.sgetn(source.data(), static_cast<std::streamsize>(source.size()))));
  jinja::Template::require_length(source, file.string());
  return source;
}

/// A template, or a list of {name, template}.
void add_field(const Json& field, TemplateSources& sources) {
  if (field.is_string()) {
    sources.insert_or_assign("default", TemplateSource{field.string(), field.where()});
    return;
  }
  if (!field.is_array()) field.fail("is neither a template nor a list of templates");
  for (std::size_t i = 0; i < field.size(); ++i) {
    const Json source = field[i].at("template");
    sources.insert_or_assign(field[i].at("name").string(), TemplateSource{source.string(), source.where()});
  }
}

TemplateSources template_sources(const GgufMetadata& metadata, const std::string& file) {
  const std::string before_name = gguf_template_key + std::string(".");
  TemplateSources sources;
  for (const auto& [key, value] : metadata) {
    if (key != gguf_template_key && !key.starts_with(before_name)) continue;
    const auto* source = std::get_if<std::string>(&value);
    const std::string origin = file + ": key " + printable(key);
    if (source == nullptr) throw Error(origin + ": is not a text");
    const std::string name = key == gguf_template_key ? "default" : key.substr(before_name.size());
    sources.insert_or_assign(name, TemplateSource{*source, origin});
  }
  return sources;
}

constexpr const char* token_names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};

std::optional<std::string> content_of(const Json& token) {
  if (token.is_string()) return token.string();
  const auto content = token.is_object() ? token.find("content") : std::nullopt;
  return content ? std::optional(content->string()) : std::nullopt;
}

jinja::Dict special_tokens_in(const std::filesystem::path& folder) {
  jinja::Dict tokens;
  for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {
    if (!is_present(folder / file)) continue;
    const Json config = Json::read(folder / file);
    for (const char* name : token_names) {
      const auto token = config.find(name);
      if (const auto content = token ? content_of(*token) : std::nullopt) {
        tokens.set(name, jinja::Value::text(*content));
      }
    }
    const auto extra = config.find("extra_special_tokens");
    for (const std::string& name : extra && extra->is_object() ? extra->fields() : std::vector<std::string>()) {
      const auto token = extra->find(name);
      if (const auto content = token ? content_of(*token) : std::nullopt) {
        tokens.set(name, jinja::Value::text(*content));
      }
    }
  }
  return tokens;
}

jinja::Dict special_tokens_in(const GgufMetadata& metadata) {
  jinja::Dict tokens;
  const auto list = metadata.find("tokenizer.ggml.tokens");
  const auto* texts = list != metadata.end() ? std::get_if<std::vector<std::string>>(&list->second) : nullptr;
  const std::pair<const char*, const char*> keys[] = {
      {"bos_token", "bos"}, {"eos_token", "eos"}, {"unk_token", "unknown"}, {"pad_token", "padding"}};
  for (const auto& [name, key] : keys) {
    const auto found = metadata.find("tokenizer.ggml." + std::string(key) + "_token_id");
    const auto* id = found != metadata.end() ? std::get_if<std::uint64_t>(&found->second) : nullptr;
    if (id != nullptr && texts != nullptr && *id < texts->size()) tokens.set(name, jinja::Value::text((*texts)[*id]));
  }
  return tokens;
}

jinja::Dict special_tokens_of(const Checkpoint& files) {
  if (files.metadata() != nullptr) return special_tokens_in(*files.metadata());
  return special_tokens_in(files.path());
}

/// The messages as transformers hands them to templates: what a model thought has one name, whichever it came by.
jinja::Value with_reasoning_fields(const jinja::Value& messages) {
  const jinja::List* list = messages.as_list();
  if (list == nullptr) return messages;
  std::vector<jinja::Value> result;
  for (const jinja::Value& message : list->items) {
    const jinja::Dict* dict = message.as<jinja::Dict>();
    const jinja::Value* reasoning = nullptr;
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
      const jinja::Value* const found = dict != nullptr && reasoning == nullptr ? dict->find(name) : nullptr;
      if (found != nullptr && !found->is_none()) reasoning = found;
    }
    if (reasoning == nullptr) {
      result.push_back(message);
      continue;
    }
    jinja::Dict named;
    named.set("thinking", *reasoning);
    for (const auto& [key, value] : dict->entries) {
      if (const auto* name = key.as<jinja::MarkedText>()) named.set(*name, value);
    }
    named.set("reasoning_content", *reasoning);
    result.push_back(jinja::Value::of(std::move(named)));
  }
  return jinja::Value::list(std::move(result));
}

std::vector<Piece> split_pieces(const jinja::MarkedText& text) {
  std::vector<Piece> pieces;
  std::size_t done = 0;
  const auto add = [&](std::size_t end, bool from_template) {
    if (end > done) pieces.push_back({text.bytes().substr(done, end - done), from_template});
    done = end;
  };
  for (const jinja::ByteRange& range : text.user_ranges()) {
    add(range.begin, true);
    add(range.end, false);
  }
  add(text.size(), true);
  return pieces;
}

}  // namespace

jinja::Value chat_message(const std::string& role, std::string content) {
  jinja::Dict fields;
  fields.set("role", jinja::Value::text(role));
  fields.set("content", jinja::MarkedText::of_user(std::move(content)));
  return jinja::Value::of(std::move(fields));
}

TemplateSources template_sources(const std::filesystem::path& folder) {
  TemplateSources sources;
  if (const auto file = folder / "chat_template.jinja"; is_present(file)) {
    sources.insert_or_assign("default", TemplateSource{source_in(file), file.string()});
    std::error_code none;
    std::set<std::filesystem::path> others;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "additional_chat_templates", none)) {
      if (entry.path().extension() == ".jinja") others.insert(entry.path());
    }
    for (const auto& other : others) {
      sources.insert_or_assign(other.stem().string(), TemplateSource{source_in(other), other.string()});
    }
    return sources;
  }
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    if (!sources.empty() || !is_present(folder / name)) continue;
    if (const auto field = Json::read(folder / name).find("chat_template")) add_field(*field, sources);
  }
  return sources;
}

std::optional<ChatTemplate> ChatTemplate::find(const Checkpoint& files) {
  const TemplateSources sources = files.metadata() != nullptr
                                      ? template_sources(*files.metadata(), files.path().string())
                                      : template_sources(files.path());
  if (sources.empty()) return std::nullopt;
  ChatTemplate result(special_tokens_of(files));
  for (const auto& [name, source] : sources) result.add(name, source.text, source.origin);
  return result;
}

ChatTemplate ChatTemplate::read(const std::filesystem::path& file, const Checkpoint& files) {
  return {source_in(file), file.string(), special_tokens_of(files)};
}

ChatTemplate::ChatTemplate(std::string_view source, const std::string& origin, jinja::Dict special_tokens)
    : special_tokens_(std::move(special_tokens)) {
  add("default", source, origin);
}

void ChatTemplate::add(const std::string& name, std::string_view source, const std::string& origin) {
  templates_.insert_or_assign(name, jinja::Template(source, origin));
}

const jinja::Template& ChatTemplate::chosen(bool with_tools) const {
  const auto for_tools = templates_.find("tool_use");
  const auto found = with_tools && for_tools != templates_.end() ? for_tools : templates_.find("default");
  if (found != templates_.end()) return found->second;
  const jinja::Template& other = templates_.begin()->second;
  throw Error(other.origin() + ": the model has no chat template with the name default; give one with --template");
}

std::vector<Piece> ChatTemplate::render(const Chat& chat) const {
  const bool with_tools = !chat.tools.is_none();
  jinja::Dict variables = special_tokens_;
  for (const auto& [key, value] : chat.more.entries) {
    if (const auto* name = key.as<jinja::MarkedText>()) variables.set(*name, value);
  }
  variables.set("messages", with_reasoning_fields(chat.messages));
  variables.set("tools", chat.tools);
  variables.set("documents", chat.documents);
  variables.set("add_generation_prompt", chat.add_generation_prompt);
  return split_pieces(chosen(with_tools).render(variables, chat.now));
}

std::string text_of(std::span<const Piece> pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  return text;
}

std::vector<Token> encode(const Tokenizer& tokenizer, std::span<const Piece> pieces) {
  std::string text;
  std::vector<TextRange> special;
  for (const Piece& piece : pieces) {
    if (piece.from_template) special.push_back({text.size(), text.size() + piece.text.size()});
    text += piece.text;
  }
  return tokenizer.encode(text, false, special);
}

}  // namespace draftproof
