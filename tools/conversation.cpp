// SPDX-License-Identifier: MIT
#include "tools/conversation.h"

#include <ctime>

namespace draftproof {

std::vector<Message> Conversation::messages() const {
  std::vector<Message> all;
  if (!system_.empty()) all.push_back({"system", system_});
  all.insert(all.end(), turns_.begin(), turns_.end());
  return all;
}

std::vector<Piece> Conversation::rendered() const {
  std::vector<jinja::Value> list;
  for (const Message& message : messages()) list.push_back(chat_message(message.role, message.content));
  Chat chat;
  chat.messages = jinja::Value::list(std::move(list));
  chat.more = variables_;
  const std::time_t now = std::time(nullptr);
  localtime_r(&now, &chat.now);
  return template_.render(chat);
}

}  // namespace draftproof
