// SPDX-License-Identifier: MIT
// Anthropic's /v1/messages: a request becomes that of a chat, and its answer is told as blocks: what the model thinks,
// text, and calls of tools.
#include "serve/anthropic_api.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "ref/base/error.h"
#include "serve/chat_request.h"
#include "serve/foreign_json.h"

namespace draftproof::serve {
namespace {

/// A message becomes one of a chat, and the answers of tools in it one each. `name`: the client's of the message.
void add_message(const Json& message, const std::string& name, TranslatedRequest& chat) {
  const Json role = message.at("role");
  if (role.string() != "user" && role.string() != "assistant") role.fail("is neither user nor assistant");
  const Json content = message.at("content");
  refuse_unknown(message, {"role", "content"});
  if (content.is_string()) {
    chat.add("messages", {{"role", role.string()}, {"content", content.string()}}, name);
    return;
  }
  std::vector<std::string> calls;  // the names of their blocks
  ForeignJson own = {{"role", role.string()}, {"content", ""}};
  bool is_empty = true;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Json block = content[i];
    const Json type = block.at("type");
    const std::string& kind = type.string();
    const std::string block_name = name + ".content[" + std::to_string(i) + "]";
    if (kind == "tool_result") {
      refuse_unknown(block, {"type", "tool_use_id", "content", "is_error", "cache_control"});
      const auto result = block.find("content");
      const bool failed = read_boolean(block, "is_error", false);
      const std::string text = result ? read_texts_of(*result, {"text"}) : "";
      chat.add("messages",
               {{"role", "tool"},
                {"tool_call_id", block.at("tool_use_id").string()},
                {"content", failed ? "Error: " + text : text}},
               block_name);
      continue;
    }
    is_empty = false;
    if (kind == "text") {
      own["content"].get_ref<std::string&>() += block.at("text").string();
    } else if (kind == "thinking") {
      own["reasoning_content"] = own.value("reasoning_content", "") + block.at("thinking").string();
    } else if (kind == "tool_use") {
      calls.push_back(block_name);
      own["tool_calls"].push_back(
          {{"id", block.at("id").string()},
           {"type", "function"},
           {"function", {{"name", block.at("name").string()}, {"arguments", foreign(block.at("input"))}}}});
    } else if (kind != "redacted_thinking") {
      type.fail("is not one of text, thinking, tool_use and tool_result");
    }
  }
  if (is_empty) return;
  const std::string place = "messages[" + std::to_string(chat.fields["messages"].size()) + "].tool_calls[";
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string function = place + std::to_string(i) + "].function";
    chat.names[function] = calls[i];
    chat.names[function + ".arguments"] = calls[i] + ".input";
  }
  chat.add("messages", std::move(own), name);
}

void add_tools(const Json& request, TranslatedRequest& chat) {
  if (const auto tools = request.find("tools")) {
    for (std::size_t i = 0; i < tools->size(); ++i) {
      const Json tool = (*tools)[i];
      refuse_unknown(
          tool, {"name", "description", "input_schema", "type", "cache_control", "strict", "eager_input_streaming"});
      if (const auto type = tool.find("type"); type && type->string() != "custom") {
        type->fail("is not custom; this server has no tools of its own");
      }
      ForeignJson function = {{"name", tool.at("name").string()}};
      if (const auto text = tool.find("description")) function["description"] = text->string();
      if (const auto schema = tool.find("input_schema")) function["parameters"] = foreign(*schema);
      if (const auto strict = tool.find("strict")) function["strict"] = strict->boolean();
      const std::string name = "tools[" + std::to_string(i) + "]";
      chat.names[name + ".function"] = name;
      chat.names[name + ".function.parameters"] = name + ".input_schema";
      chat.add("tools", {{"type", "function"}, {"function", std::move(function)}}, name);
    }
  }
  const auto choice = request.find("tool_choice");
  if (!choice) return;
  refuse_unknown(*choice, {"type", "name", "disable_parallel_tool_use"});
  const Json type = choice->at("type");
  const std::string& word = type.string();
  chat.names["tool_choice.function"] = "tool_choice";
  if (word == "tool") chat.fields["tool_choice"] = {{"function", {{"name", choice->at("name").string()}}}};
  else if (word == "any") chat.fields["tool_choice"] = "required";
  else if (word == "auto" || word == "none") chat.fields["tool_choice"] = word;
  else type.fail("is not one of auto, any, tool and none");
  chat.fields["parallel_tool_calls"] = !read_boolean(*choice, "disable_parallel_tool_use", false);
}

/// Whether the request asks to be told what the model thinks, and how much.
void add_thinking(const Json& request, const ServedModel& model, TranslatedRequest& chat) {
  const auto thinking = request.find("thinking");
  const std::string type = thinking ? thinking->at("type").string() : "disabled";
  if (thinking) refuse_unknown(*thinking, {"type", "budget_tokens", "display"});
  const bool enabled = type == "enabled" || type == "adaptive";
  if (!enabled && type != "disabled") thinking->at("type").fail("is not one of enabled, adaptive and disabled");
  const auto display = thinking ? thinking->find("display") : std::nullopt;
  chat.fields["include_reasoning"] = enabled && !(display && display->string() == "omitted");
  if (const auto budget = enabled ? thinking->find("budget_tokens") : std::nullopt) {
    chat.set("thinking_budget_tokens", foreign(*budget), "thinking.budget_tokens");
  }
  if (thinking && names_variable(model, "enable_thinking"))
    chat.fields["chat_template_kwargs"] = {{"enable_thinking", enabled}};
}

CompletionRequest read_messages_request(const std::string& body, const ServedModel& model) {
  const Json request = parse_foreign(body);
  refuse_unknown(request,
                 {"model", "messages", "max_tokens", "system", "stop_sequences", "stream", "temperature", "top_p",
                  "top_k", "tools", "tool_choice", "thinking", "metadata", "service_tier", "cache_control", "seed"});
  TranslatedRequest chat;
  chat.fields = {{"messages", ForeignJson::array()}, {"max_tokens", foreign(request.at("max_tokens"))}};
  if (const auto system = request.find("system")) {
    chat.add("messages", {{"role", "system"}, {"content", read_texts_of(*system, {"text"})}}, "system");
  }
  const Json messages = request.at("messages");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    add_message(messages[i], "messages[" + std::to_string(i) + "]", chat);
  }
  const ForeignJson& list = chat.fields["messages"];
  if (!list.empty() && list.back()["role"] == "assistant") {
    chat.set("continue_final_message", true, "messages[" + std::to_string(messages.size() - 1) + "]");
  }
  for (const char* const same : {"stream", "temperature", "top_p", "top_k", "seed"}) {
    if (const auto value = request.find(same)) chat.fields[same] = foreign(*value);
  }
  if (const auto stops = request.find("stop_sequences")) chat.set("stop", foreign(*stops), "stop_sequences");
  add_tools(request, chat);
  add_thinking(request, model, chat);
  return read_chat(chat.fields.dump(), model, chat.names);
}

std::string stop_reason(const ToldChoice& told) {
  if (told.finish == "tool_calls") return "tool_use";
  if (told.finish == "length") return "max_tokens";
  return told.ended ? "stop_sequence" : "end_turn";
}

class AnthropicWriter final : public AnswerWriter {
 public:
  AnthropicWriter(const CompletionRequest& request, const ServedModel& model, const std::string& id)
      : AnswerWriter(request, model, "msg_" + id) {}

  std::string end_of_stream() override {
    if (failure()) return "";
    const ToldChoice& answer = told(0);
    std::string events = begin();
    events += end_block();
    events += event("message_delta", {{"delta", {{"stop_reason", stop_reason(answer)}, {"stop_sequence", ended()}}},
                                      {"usage", usage_object()}});
    return events + event("message_stop", ForeignJson::object());
  }

  std::string whole() const override {
    ForeignJson message = message_object();
    const ToldChoice& answer = told(0);
    for (const ToldPart& item : answer.items) {
      if (item.kind != AnswerPart::Kind::call) {
        message["content"].push_back(block(item.kind == AnswerPart::Kind::thought ? "thinking" : "text", item.text));
        continue;
      }
      ForeignJson use = block_of(answer.calls[item.call]);
      use["input"] = object_or_empty(answer.calls[item.call].arguments);
      message["content"].push_back(std::move(use));
    }
    message["stop_reason"] = stop_reason(answer);
    message["stop_sequence"] = ended();
    message["usage"] = usage_object();
    return text_of(message);
  }

 private:
  static std::string event(const std::string& type, ForeignJson data) {
    ForeignJson all = {{"type", type}};
    all.update(data);
    return "event: " + type + "\ndata: " + text_of(all) + "\n\n";
  }

  static ForeignJson block(const std::string& type, const std::string& text) {
    ForeignJson one = {{"type", type}, {type, text}};
    if (type == "thinking") one["signature"] = "";
    return one;
  }
  static ForeignJson block_of(const ToldCall& call) {
    return {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", ForeignJson::object()}};
  }

  ForeignJson ended() const { return told(0).ended ? ForeignJson(*told(0).ended) : ForeignJson(); }
  ForeignJson usage_object() const {
    return {{"input_tokens", usage().prompt_tokens - usage().cached_tokens},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", usage().cached_tokens},
            {"output_tokens", usage().completion_tokens}};
  }
  ForeignJson message_object() const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model_.name},
            {"content", ForeignJson::array()},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr},
            {"usage", usage_object()}};
  }

  std::string begin() {
    if (std::exchange(begun_, true)) return "";
    return event("message_start", {{"message", message_object()}});
  }
  std::string end_block() {
    if (open_.empty()) return "";
    open_.clear();
    return event("content_block_stop", {{"index", blocks_++}});
  }
  /// Begins a block unless it is the one that is open. `name`: of its type, and for a call its number.
  std::string in_block(const std::string& name, const ForeignJson& start) {
    if (open_ == name) return "";
    const std::string end = end_block();
    open_ = name;
    return end + event("content_block_start", {{"index", blocks_}, {"content_block", start}});
  }
  std::string delta(const std::string& type, const std::string& field, const std::string& text) const {
    return event("content_block_delta", {{"index", blocks_}, {"delta", {{"type", type}, {field, text}}}});
  }

  std::string tell(const News& news) override {
    if (!request_.stream) return "";
    std::string events = begin();
    for (const ToldPart& part : news.parts) {
      const std::string number = "call " + std::to_string(part.call);
      switch (part.kind) {
        case AnswerPart::Kind::content:
          events += in_block("text", block("text", ""));
          events += delta("text_delta", "text", part.text);
          break;
        case AnswerPart::Kind::thought:
          events += in_block("thinking", block("thinking", ""));
          events += delta("thinking_delta", "thinking", part.text);
          break;
        case AnswerPart::Kind::call: events += in_block(number, block_of(told(0).calls[part.call])); break;
        case AnswerPart::Kind::arguments: events += delta("input_json_delta", "partial_json", part.text); break;
      }
    }
    return events;
  }

  std::string tell_failure() override {
    return request_.stream ? event("error", ForeignJson::parse(anthropic_messages.error(*failure(), 500))) : "";
  }

  bool begun_ = false;
  int blocks_ = 0;
  std::string open_;  // the block that goes on; empty: none
};

std::unique_ptr<AnswerWriter> anthropic_writer(const CompletionRequest& request, const ServedModel& model,
                                               const std::string& id, const std::string&) {
  return std::make_unique<AnthropicWriter>(request, model, id);
}

std::string anthropic_error(const std::string& message, int status) {
  const char* const type = status == 401   ? "authentication_error"
                           : status == 404 ? "not_found_error"
                           : status == 413 ? "request_too_large"
                           : status == 429 ? "rate_limit_error"
                           : status == 503 ? "overloaded_error"
                           : status < 500  ? "invalid_request_error"
                                           : "api_error";
  return text_of({{"type", "error"}, {"error", {{"type", type}, {"message", message}}}});
}

}  // namespace

const Api anthropic_messages = {.read = read_messages_request, .writer = anthropic_writer, .error = anthropic_error};

std::string count_tokens_json(const std::string& body, const ServedModel& model) {
  ForeignJson request = foreign(parse_foreign(body));
  request["max_tokens"] = 1;
  return text_of({{"input_tokens", read_messages_request(request.dump(), model).job.choices[0].prompt.size()}});
}

}  // namespace draftproof::serve
