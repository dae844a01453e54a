// SPDX-License-Identifier: MIT
#include "tools/conversation.h"

#include <utility>

#include "ref/formats/json.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

/// The arguments as a template reads them: an object.
std::string object_of(const std::string& arguments) {
  return ordered_json::accept(arguments) && ordered_json::parse(arguments).is_object() ? arguments : "{}";
}

}  // namespace

Conversation::Conversation(const ChatTemplate& text, const Tokenizer& tokenizer, ordered_json variables,
                           ordered_json tools, std::string origin)
    : variables_(std::move(variables)), tools_(std::move(tools)), origin_(std::move(origin)) {
  model_.tokenizer = &tokenizer;
  model_.chat = &text;
}

void Conversation::add(const ChatAnswer& answer) {
  ordered_json message = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.thought.empty()) message["reasoning_content"] = answer.thought;
  for (const MadeCall& call : answer.calls) {
    message["tool_calls"].push_back({{"id", call.id},
                                     {"type", "function"},
                                     {"function", {{"name", call.name}, {"arguments", object_of(call.arguments)}}}});
  }
  turns_.push_back(std::move(message));
}

void Conversation::add_returned(const MadeCall& call, const std::string& text) {
  turns_.push_back({{"role", "tool"}, {"tool_call_id", call.id}, {"name", call.name}, {"content", text}});
}

ordered_json Conversation::messages() const {
  auto all = ordered_json::array();
  if (!system_.empty()) all.push_back({{"role", "system"}, {"content", system_}});
  for (const ordered_json& turn : turns_) all.push_back(turn);
  return all;
}

serve::ChatRequest Conversation::request(bool demanded) const {
  ordered_json body = {{"messages", messages()}, {"chat_template_kwargs", variables_}};
  if (!tools_.is_null()) body["tools"] = tools_;
  if (demanded) body.update({{"tool_choice", "required"}, {"parallel_tool_calls", false}});
  return serve::read_conversation(Json::parse(body.dump(), origin_), model_);
}

}  // namespace draftproof
