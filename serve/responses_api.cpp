// SPDX-License-Identifier: MIT
// OpenAI's /v1/responses: a request becomes that of a chat, and its answer is told as items: what the model thinks,
// a message, and calls of functions. An earlier response that it goes on with is part of its input by then
// (response_store.h).
#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "ref/base/error.h"
#include "serve/api.h"
#include "serve/foreign_json.h"
#include "serve/openai_writer.h"

namespace draftproof::serve {
namespace {

std::string text_of_parts(const Json& content) {
  return read_texts_of(content, {"input_text", "output_text", "text", "summary_text", "reasoning_text"});
}

/// Adds an item of the input. Thoughts and calls belong to one message with the text beside them. `name`: the client's
/// of the item.
void add_item(const Json& item, const std::string& name, TranslatedRequest& chat) {
  ForeignJson& messages = chat.fields["messages"];
  const auto type = item.find("type");
  const std::string kind = type ? type->string() : "message";
  const auto assistant = [&]() -> ForeignJson& {
    if (messages.empty() || messages.back()["role"] != "assistant") {
      chat.add("messages", {{"role", "assistant"}, {"content", ""}}, name);
    }
    return messages.back();
  };
  if (kind == "message") {
    refuse_unknown(item, {"type", "role", "content", "id", "status", "phase"});
    const std::string role = item.at("role").string();
    const std::string text = text_of_parts(item.at("content"));
    if (role == "assistant") assistant()["content"].get_ref<std::string&>() += text;
    else chat.add("messages", {{"role", role}, {"content", text}}, name);
  } else if (kind == "function_call") {
    refuse_unknown(item, {"type", "call_id", "name", "arguments", "id", "status"});
    ForeignJson& calls = assistant()["tool_calls"];
    chat.names["messages[" + std::to_string(messages.size() - 1) + "].tool_calls[" + std::to_string(calls.size()) +
               "].function"] = name;
    calls.push_back({{"id", item.at("call_id").string()},
                     {"type", "function"},
                     {"function", {{"name", item.at("name").string()}, {"arguments", item.at("arguments").string()}}}});
  } else if (kind == "function_call_output") {
    refuse_unknown(item, {"type", "call_id", "output", "id", "status"});
    chat.add("messages",
             {{"role", "tool"},
              {"tool_call_id", item.at("call_id").string()},
              {"content", text_of_parts(item.at("output"))}},
             name);
  } else if (kind == "reasoning") {
    const auto content = item.find("content");
    if (content) assistant()["reasoning_content"] = text_of_parts(*content);
  } else {
    type->fail("is not one of message, function_call, function_call_output and reasoning");
  }
}

void add_format(const Json& request, TranslatedRequest& chat) {
  const auto text = request.find("text");
  if (!text) return;
  refuse_unknown(*text, {"format", "verbosity"});
  if (const auto verbosity = text->find("verbosity"); verbosity && verbosity->string() != "medium") {
    verbosity->fail("is nothing that this server can obey; leave it out");
  }
  const auto format = text->find("format");
  if (!format) return;
  const std::string type = format->at("type").string();
  chat.set("response_format", {{"type", type}}, "text.format");
  chat.names["response_format.json_schema"] = "text.format";
  if (type == "json_schema") {
    chat.fields["response_format"]["json_schema"] = {{"schema", foreign(format->at("schema"))}};
  }
}

void add_functions(const Json& request, TranslatedRequest& chat) {
  if (const auto tools = request.find("tools")) {
    for (std::size_t i = 0; i < tools->size(); ++i) {
      const Json tool = (*tools)[i];
      const Json type = tool.at("type");
      if (type.string() != "function") type.fail("is not function; this server has no tools of its own");
      ForeignJson function = ForeignJson::object();
      for (const char* const field : {"name", "description", "parameters", "strict"}) {
        if (const auto value = tool.find(field)) function[field] = foreign(*value);
      }
      const std::string name = "tools[" + std::to_string(i) + "]";
      chat.names[name + ".function"] = name;
      chat.add("tools", {{"type", "function"}, {"function", std::move(function)}}, name);
    }
  }
  if (const auto choice = request.find("tool_choice")) {
    chat.names["tool_choice.function"] = "tool_choice";
    if (choice->is_object()) chat.fields["tool_choice"] = {{"function", {{"name", choice->at("name").string()}}}};
    else chat.fields["tool_choice"] = choice->string();
  }
}

CompletionRequest read_response_request(const std::string& body, const ServedModel& model) {
  const Json request = parse_foreign(body);
  refuse_unknown(request, {"model",
                           "input",
                           "instructions",
                           "max_output_tokens",
                           "temperature",
                           "top_p",
                           "tools",
                           "tool_choice",
                           "parallel_tool_calls",
                           "text",
                           "stream",
                           "stream_options",
                           "store",
                           "previous_response_id",
                           "metadata",
                           "user",
                           "reasoning",
                           "truncation",
                           "include",
                           "service_tier",
                           "safety_identifier",
                           "prompt_cache_key",
                           "prompt_cache_retention",
                           "seed"});
  read_boolean(request, "store", true);
  if (const auto include = request.find("include")) {
    for (std::size_t i = 0; i < include->size(); ++i) {
      if ((*include)[i].string() != "reasoning.encrypted_content")
        (*include)[i].fail("is nothing that this server has");
    }
  }
  if (const auto truncation = request.find("truncation"); truncation && truncation->string() != "disabled") {
    truncation->fail("is not disabled; a text that is too long is refused here");
  }
  TranslatedRequest chat;
  chat.fields["messages"] = ForeignJson::array();
  chat.names["messages"] = "input";
  if (const auto text = request.find("instructions")) {
    chat.add("messages", {{"role", "system"}, {"content", text->string()}}, "instructions");
  }
  const Json input = request.at("input");
  if (!input.is_array()) chat.add("messages", {{"role", "user"}, {"content", input.string()}}, "input");
  for (std::size_t i = 0; input.is_array() && i < input.size(); ++i) {
    add_item(input[i], "input[" + std::to_string(i) + "]", chat);
  }
  for (const auto& [from, to] : {std::pair("max_output_tokens", "max_tokens"),
                                 {"temperature", "temperature"},
                                 {"top_p", "top_p"},
                                 {"parallel_tool_calls", "parallel_tool_calls"},
                                 {"stream", "stream"},
                                 {"seed", "seed"}}) {
    if (const auto value = request.find(from)) chat.set(to, foreign(*value), from);
  }
  if (const auto reasoning = request.find("reasoning")) {
    refuse_unknown(*reasoning, {"effort", "summary", "generate_summary"});
    if (const auto effort = reasoning->find("effort"))
      chat.set("reasoning_effort", effort->string(), "reasoning.effort");
  }
  add_format(request, chat);
  add_functions(request, chat);
  return read_chat(chat.fields.dump(), model, chat.names);
}

class ResponsesWriter final : public AnswerWriter {
 public:
  ResponsesWriter(const CompletionRequest& request, const ServedModel& model, const std::string& id,
                  const std::string& body)
      : AnswerWriter(request, model, "resp_" + id), asked_(ForeignJson::parse(body)), created_(std::time(nullptr)) {}

  std::string end_of_stream() override {
    if (failure()) return "";
    std::string events = begin();
    events += end_item();
    const ForeignJson whole = response(status());
    return events + event("response." + status(), {{"response", whole}});
  }

  std::string whole() const override { return text_of(response(status())); }

 private:
  std::string status() const { return told(0).finish == "length" ? "incomplete" : "completed"; }

  std::string event(const std::string& type, const ForeignJson& data) {
    ForeignJson all = {{"type", type}, {"sequence_number", events_++}};
    all.update(data);
    return "event: " + type + "\ndata: " + text_of(all) + "\n\n";
  }

  ForeignJson asked(const char* field, ForeignJson default_value) const {
    return asked_.contains(field) && !asked_[field].is_null() ? asked_[field] : std::move(default_value);
  }

  ForeignJson thought_item(const std::string& text, int number, const std::string& status) const {
    ForeignJson item = {{"id", item_id("rs_", number)},
                        {"type", "reasoning"},
                        {"summary", ForeignJson::array()},
                        {"content", ForeignJson::array()},
                        {"status", status}};
    if (!text.empty()) item["content"].push_back({{"type", "reasoning_text"}, {"text", text}});
    return item;
  }
  std::string item_id(const char* kind, int number) const { return kind + std::to_string(number) + "_" + id_; }
  static ForeignJson text_part(const std::string& text) {
    return {{"type", "output_text"},
            {"text", text},
            {"annotations", ForeignJson::array()},
            {"logprobs", ForeignJson::array()}};
  }
  ForeignJson message_item(const std::string& text, int number, const std::string& status) const {
    ForeignJson item = {{"id", item_id("msg_", number)},
                        {"type", "message"},
                        {"status", status},
                        {"role", "assistant"},
                        {"content", ForeignJson::array()}};
    if (!text.empty() || status != "in_progress") item["content"].push_back(text_part(text));
    return item;
  }
  static ForeignJson call_item(const ToldCall& call, const std::string& arguments, const std::string& status) {
    return {{"id", "fc_" + call.id}, {"type", "function_call"}, {"call_id", call.id},
            {"name", call.name},     {"arguments", arguments},  {"status", status}};
  }

  /// The items of the answer, as far as it was told.
  ForeignJson items(const std::string& status) const {
    auto list = ForeignJson::array();
    const ToldChoice& answer = told(0);
    for (const ToldPart& item : answer.items) {
      const int number = static_cast<int>(list.size());
      const bool is_thought = item.kind == AnswerPart::Kind::thought;
      if (item.kind == AnswerPart::Kind::call) {
        list.push_back(call_item(answer.calls[item.call], answer.calls[item.call].arguments, status));
      } else {
        list.push_back(is_thought ? thought_item(item.text, number, status) : message_item(item.text, number, status));
      }
    }
    return list;
  }

  ForeignJson response(const std::string& status) const {
    const bool ended = status == "completed" || status == "incomplete";
    ForeignJson result = {{"id", id_},
                          {"object", "response"},
                          {"created_at", created_},
                          {"status", status},
                          {"background", false},
                          {"error", nullptr},
                          {"incomplete_details", nullptr},
                          {"instructions", asked("instructions", nullptr)},
                          {"max_output_tokens", asked("max_output_tokens", nullptr)},
                          {"model", model_.name},
                          {"output", ended ? items(status) : ForeignJson::array()},
                          {"parallel_tool_calls", asked("parallel_tool_calls", true)},
                          {"previous_response_id", asked("previous_response_id", nullptr)},
                          {"reasoning", asked("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
                          {"store", asked("store", true)},
                          {"temperature", asked("temperature", 1.0)},
                          {"text", asked("text", {{"format", {{"type", "text"}}}})},
                          {"tool_choice", asked("tool_choice", "auto")},
                          {"tools", asked("tools", ForeignJson::array())},
                          {"top_p", asked("top_p", 1.0)},
                          {"truncation", "disabled"},
                          {"usage", nullptr},
                          {"metadata", asked("metadata", ForeignJson::object())},
                          {"seed", request_.job.seed}};
    if (status == "incomplete") result["incomplete_details"] = {{"reason", "max_output_tokens"}};
    if (failure()) result["error"] = {{"code", "server_error"}, {"message", *failure()}};
    if (!ended) return result;
    result["usage"] = {{"input_tokens", usage().prompt_tokens},
                       {"input_tokens_details", {{"cached_tokens", usage().cached_tokens}}},
                       {"output_tokens", usage().completion_tokens},
                       {"output_tokens_details", {{"reasoning_tokens", usage().thought_tokens}}},
                       {"total_tokens", usage().prompt_tokens + usage().completion_tokens}};
    return result;
  }

  std::string begin() {
    if (events_ > 0) return "";
    const ForeignJson begun = response("in_progress");
    const std::string created = event("response.created", {{"response", begun}});
    return created + event("response.in_progress", {{"response", begun}});
  }

  /// What is open: an item with the number item_.
  enum class Open { nothing, thought, message, call };

  ForeignJson place() const { return {{"output_index", item_}}; }
  ForeignJson place_of(const ForeignJson& item) const {
    ForeignJson at = {{"item_id", item["id"]}, {"output_index", item_}};
    if (open_ != Open::call) at["content_index"] = 0;
    return at;
  }

  std::string end_item() {
    const ToldChoice& answer = told(0);
    std::string events;
    ForeignJson item;
    const std::string status = this->status();
    if (open_ == Open::nothing) return "";
    if (open_ == Open::call) {
      const ToldCall& call = answer.calls[call_];
      item = call_item(call, call.arguments, status);
      ForeignJson done = place_of(item);
      done.update({{"name", call.name}, {"arguments", call.arguments}});
      events += event("response.function_call_arguments.done", done);
    } else {
      const bool is_text = open_ == Open::message;
      item = is_text ? message_item(open_text_, item_, status) : thought_item(open_text_, item_, status);
      ForeignJson done = place_of(item);
      done["text"] = open_text_;
      if (is_text) done["logprobs"] = ForeignJson::array();
      events += event(is_text ? "response.output_text.done" : "response.reasoning_text.done", done);
      ForeignJson part = place_of(item);
      part["part"] = item["content"].back();
      events += event("response.content_part.done", part);
    }
    ForeignJson done = place();
    done["item"] = item;
    events += event("response.output_item.done", done);
    open_ = Open::nothing;
    open_text_.clear();
    ++item_;
    return events;
  }

  std::string begin_item(Open kind) {
    std::string events = end_item();
    open_ = kind;
    const ForeignJson item = kind == Open::call      ? call_item(told(0).calls[call_], "", "in_progress")
                             : kind == Open::message ? message_item("", item_, "in_progress")
                                                     : thought_item("", item_, "in_progress");
    ForeignJson added = place();
    added["item"] = item;
    events += event("response.output_item.added", added);
    if (kind == Open::call) return events;
    ForeignJson part = place_of(item);
    part["part"] = kind == Open::message ? text_part("") : ForeignJson{{"type", "reasoning_text"}, {"text", ""}};
    return events + event("response.content_part.added", part);
  }

  std::string add_text(Open kind, const char* type, const std::string& text) {
    std::string events = open_ == kind ? "" : begin_item(kind);
    open_text_ += text;
    const ForeignJson item =
        kind == Open::message ? message_item("", item_, "in_progress") : thought_item("", item_, "in_progress");
    ForeignJson delta = place_of(item);
    delta["delta"] = text;
    if (kind == Open::message) delta["logprobs"] = ForeignJson::array();
    return events + event(type, delta);
  }

  std::string tell(const News& news) override {
    if (!request_.stream) return "";
    std::string events = begin();
    for (const ToldPart& part : news.parts) {
      switch (part.kind) {
        case AnswerPart::Kind::content:
          events += add_text(Open::message, "response.output_text.delta", part.text);
          break;
        case AnswerPart::Kind::thought:
          events += add_text(Open::thought, "response.reasoning_text.delta", part.text);
          break;
        case AnswerPart::Kind::call:
          events += end_item();
          call_ = part.call;
          events += begin_item(Open::call);
          break;
        case AnswerPart::Kind::arguments: {
          ForeignJson delta = place_of(call_item(told(0).calls[call_], "", ""));
          delta["delta"] = part.text;
          events += event("response.function_call_arguments.delta", delta);
          break;
        }
      }
    }
    return events;
  }

  std::string tell_failure() override {
    if (!request_.stream) return "";
    const std::string begun = begin();
    return begun + event("response.failed", {{"response", response("failed")}});
  }

  ForeignJson asked_;  // the request, which a response repeats
  std::time_t created_;
  int events_ = 0;
  Open open_ = Open::nothing;
  std::size_t call_ = 0;   // that is open
  std::string open_text_;  // of the item that is open
  int item_ = 0;           // its number, or that of the next
};

std::unique_ptr<AnswerWriter> responses_writer(const CompletionRequest& request, const ServedModel& model,
                                               const std::string& id, const std::string& body) {
  return std::make_unique<ResponsesWriter>(request, model, id, body);
}

}  // namespace

const Api openai_responses = {.read = read_response_request, .writer = responses_writer, .error = openai_error};

}  // namespace draftproof::serve
