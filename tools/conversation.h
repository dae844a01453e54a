// SPDX-License-Identifier: MIT
// The messages of a chat, and their tokens by the chat template of the model.
#pragma once

#include <string>
#include <vector>

#include "ref/chat/chat_template.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

class Conversation {
 public:
  /// Both outlive the conversation. `system`: the first message; empty: none. `variables`: more of the template's.
  Conversation(const ChatTemplate& text, const Tokenizer& tokenizer, std::string system, jinja::Dict variables)
      : template_(text), tokenizer_(tokenizer), system_(std::move(system)), variables_(std::move(variables)) {}

  void set_system(std::string system) { system_ = std::move(system); }
  void clear() { turns_.clear(); }
  void add(const std::string& role, std::string content) { turns_.push_back({role, std::move(content)}); }
  void drop_last() { turns_.pop_back(); }

  /// All messages, that of the system first.
  std::vector<Message> messages() const;
  /// The text of all messages, up to where the next answer begins. Throws Error when the template refuses them.
  std::vector<Piece> rendered() const;
  std::vector<Token> tokens() const { return encode(tokenizer_, rendered()); }

 private:
  const ChatTemplate& template_;
  const Tokenizer& tokenizer_;
  std::string system_;
  jinja::Dict variables_;
  std::vector<Message> turns_;
};

}  // namespace draftproof
