// SPDX-License-Identifier: MIT
// The messages of a chat, and their tokens by the chat template of the model: those of a request to the server that has
// the same messages.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/chat_request.h"

namespace draftproof {

/// A call of a tool, as a model has made it.
struct MadeCall {
  std::string id;  // that no other call of the chat has
  std::string name;
  std::string arguments;  // JSON, if the model writes some
};

/// What an answer consists of.
struct ChatAnswer {
  std::string content;
  std::string thought = {};
  std::vector<MadeCall> calls = {};
};

class Conversation {
 public:
  /// The template and the tokenizer outlive the conversation. `variables`: of the template. `tools`: a list of
  /// definitions, as in OpenAI's API; null: none. `origin`: begins errors about them.
  Conversation(const ChatTemplate& text, const Tokenizer& tokenizer, nlohmann::ordered_json variables,
               nlohmann::ordered_json tools, std::string origin);

  /// The first message; empty: none.
  void set_system(std::string system) { system_ = std::move(system); }
  void clear() { turns_.clear(); }
  std::size_t size() const { return turns_.size(); }
  /// Drops the messages behind the first ones.
  void drop_behind(std::size_t size) { turns_.resize(size); }

  void ask(const std::string& text) { turns_.push_back({{"role", "user"}, {"content", text}}); }
  void add(const ChatAnswer& answer);
  /// What a call of the last answer returns.
  void add_returned(const MadeCall& call, const std::string& text);

  /// All messages, that of the system first.
  nlohmann::ordered_json messages() const;
  /// What is asked of the model now. `demanded`: one call. Throws Error when the template refuses the messages, or
  /// what the tools need.
  serve::ChatRequest request(bool demanded) const;

 private:
  serve::ServedModel model_;
  nlohmann::ordered_json variables_;
  nlohmann::ordered_json tools_;
  std::string origin_;
  std::string system_;
  std::vector<nlohmann::ordered_json> turns_;
};

}  // namespace draftproof
