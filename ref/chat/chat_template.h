// SPDX-License-Identifier: MIT
// A model's chat template: a conversation becomes the text, and the tokens, that the model was trained to continue.
// Follows transformers' apply_chat_template.
//
// What users wrote never becomes a special token: rendering keeps apart which bytes come from the template and which
// from messages or tools, whatever the template did to them, and special tokens are looked for in the former only.
// Everything else about the tokens is that of the whole text.
#pragma once

#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ref/chat/jinja_template.h"
#include "ref/formats/checkpoint.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

/// A part of a rendered text.
struct Piece {
  std::string text;
  bool from_template;

  bool operator==(const Piece&) const = default;
};

/// What is rendered. Values of users are built as text of users (MarkedText::of_user, Value::from_json).
struct Chat {
  jinja::Value messages;              // a list of dictionaries: "role", "content", "tool_calls", ...
  jinja::Value tools = {};            // a list of JSON schemas; None: no tools
  jinja::Value documents = {};        // a list of dictionaries; None: no documents
  bool add_generation_prompt = true;  // ends where the answer begins
  jinja::Dict more = {};              // further variables, for example enable_thinking
  std::tm now = {};                   // for templates that print the date
};

/// A message of Chat::messages. Its role is text of the template, so it must be one that the caller knows; its content
/// is text of a user.
jinja::Value chat_message(const std::string& role, std::string content);

/// A template as it is stored.
struct TemplateSource {
  std::string text;
  std::string origin;  // where; begins the messages of errors
};
using TemplateSources = std::map<std::string, TemplateSource>;  // by name; "default"

/// Returns the templates of a folder: chat_template.jinja, with additional_chat_templates/NAME.jinja, or else
/// chat_template.json, or else the field chat_template of tokenizer_config.json. Throws Error, naming the file, where
/// these hold something else, and for a file that is too long for a template.
TemplateSources template_sources(const std::filesystem::path& folder);

/// The key of a GGUF's template "default"; any other one's is followed by a dot and its name.
inline constexpr const char* gguf_template_key = "tokenizer.chat_template";

class ChatTemplate {
 public:
  /// Reads the templates of a model: those of its folder, or of the metadata of a GGUF. nullopt when it has none.
  /// Throws Error, naming the file, for one that is none or needs what is not implemented.
  static std::optional<ChatTemplate> find(const Checkpoint& files);
  /// Reads the template of a file, for a model whose special tokens it prints.
  static ChatTemplate read(const std::filesystem::path& file, const Checkpoint& files);
  /// One template. `special_tokens`: variables like bos_token.
  ChatTemplate(std::string_view source, const std::string& origin, jinja::Dict special_tokens);

  /// Adds a template that has a name: with tools, "tool_use" is used instead of "default".
  void add(const std::string& name, std::string_view source, const std::string& origin);

  /// Returns the text in pieces, of which no two neighbors have the same origin. Throws Error when the template refuses
  /// the conversation or fails.
  std::vector<Piece> render(const Chat& chat) const;
  /// Returns the text of the template that renders a conversation. Throws Error when there is none for it.
  const std::string& source(bool with_tools) const { return chosen(with_tools).source(); }

 private:
  explicit ChatTemplate(jinja::Dict special_tokens) : special_tokens_(std::move(special_tokens)) {}
  const jinja::Template& chosen(bool with_tools) const;

  jinja::Dict special_tokens_;
  std::map<std::string, jinja::Template> templates_;  // by name; "default"
};

/// Returns the whole text.
std::string text_of(std::span<const Piece> pieces);

/// Encodes the whole text. As in transformers, the tokens that the tokenizer puts around a text are not added: a
/// template writes its BOS itself.
std::vector<Token> encode(const Tokenizer& tokenizer, std::span<const Piece> pieces);

}  // namespace draftproof
