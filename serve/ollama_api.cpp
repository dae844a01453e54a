// SPDX-License-Identifier: MIT
// Ollama's /api/chat and /api/generate: a request becomes that of a chat or, where it is `raw`, of a completion.
// Answers are streams of lines, unless the request says otherwise.
#include "serve/ollama_api.h"

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "ref/base/error.h"
#include "serve/chat_request.h"
#include "serve/foreign_json.h"

namespace draftproof::serve {
namespace {

/// "options": those that change an answer have a name in a chat, others say how to run a model.
void add_options(const Json& request, TranslatedRequest& chat) {
  const auto options = request.find("options");
  if (!options) return;
  refuse_unknown(
      *options,
      {"temperature", "top_k",        "top_p",          "min_p",         "typical_p",        "seed",
       "num_predict", "stop",         "repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty",
       "num_ctx",     "num_keep",     "num_batch",      "num_gpu",       "main_gpu",         "num_thread",
       "use_mmap",    "use_mlock",    "low_vram",       "numa",          "f16_kv",           "vocab_only",
       "mirostat",    "mirostat_tau", "mirostat_eta",   "tfs_z"});
  for (const char* const same :
       {"temperature", "top_k", "top_p", "min_p", "typical_p", "seed", "stop", "repeat_penalty", "repeat_last_n",
        "presence_penalty", "frequency_penalty", "mirostat", "mirostat_tau", "mirostat_eta", "tfs_z"}) {
    if (const auto value = options->find(same)) chat.set(same, foreign(*value), std::string("options.") + same);
  }
  if (const auto count = options->find("num_predict"); count && count->number() >= 0) {
    chat.set("max_tokens", foreign(*count), "options.num_predict");  // -1 and -2: as many as the server gives
  }
}

/// "format": json, or a schema.
void add_structure(const Json& request, TranslatedRequest& chat) {
  const auto format = request.find("format");
  if (!format || (format->is_string() && format->string().empty())) return;
  if (format->is_object()) {
    chat.set("response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", foreign(*format)}}}}, "format");
    chat.names["response_format.json_schema.schema"] = "format";
  } else {
    if (format->string() != "json") format->fail("is neither json nor a schema");
    chat.set("response_format", {{"type", "json_object"}}, "format");
  }
}

/// "think": whether to think, for templates that can be told; what is thought is left out with false.
void add_think(const Json& request, const ServedModel& model, TranslatedRequest& chat) {
  const auto think = request.find("think");
  if (!think) return;
  if (think->is_string()) {
    chat.set("reasoning_effort", think->string(), "think");
    return;
  }
  if (names_variable(model, "enable_thinking")) {
    chat.fields["chat_template_kwargs"] = {{"enable_thinking", think->boolean()}};
  }
  chat.fields["include_reasoning"] = think->boolean();
}

ForeignJson message_of(const Json& message) {
  refuse_unknown(message, {"role", "content", "thinking", "tool_calls", "tool_name", "tool_call_id"});
  ForeignJson result = {{"role", message.at("role").string()}, {"content", ""}};
  if (const auto content = message.find("content")) result["content"] = content->string();
  if (const auto thought = message.find("thinking")) result["reasoning_content"] = thought->string();
  if (const auto name = message.find("tool_name")) result["name"] = name->string();
  if (const auto id = message.find("tool_call_id")) result["tool_call_id"] = id->string();
  const auto calls = message.find("tool_calls");
  for (std::size_t i = 0; calls && i < calls->size(); ++i) {
    const Json function = (*calls)[i].at("function");
    const auto id = (*calls)[i].find("id");
    result["tool_calls"].push_back(
        {{"id", id ? id->string() : "call" + std::to_string(10000 + i)},
         {"type", "function"},
         {"function", {{"name", function.at("name").string()}, {"arguments", foreign(function.at("arguments"))}}}});
  }
  return result;
}

CompletionRequest read_ollama_chat(const std::string& body, const ServedModel& model) {
  const Json request = parse_foreign(body);
  refuse_unknown(request, {"model", "messages", "tools", "format", "options", "stream", "think", "keep_alive"});
  TranslatedRequest chat;
  chat.fields["messages"] = ForeignJson::array();
  const Json messages = request.at("messages");
  for (std::size_t i = 0; i < messages.size(); ++i) chat.fields["messages"].push_back(message_of(messages[i]));
  if (const auto tools = request.find("tools")) chat.fields["tools"] = foreign(*tools);
  add_options(request, chat);
  add_structure(request, chat);
  add_think(request, model, chat);
  chat.fields["stream"] = read_boolean(request, "stream", true);
  return read_chat(chat.fields.dump(), model, chat.names);
}

CompletionRequest read_ollama_generate(const std::string& body, const ServedModel& model) {
  const Json request = parse_foreign(body);
  refuse_unknown(request, {"model", "prompt", "system", "raw", "format", "options", "stream", "think", "keep_alive"});
  const bool plain = read_boolean(request, "raw", false) || model.chat == nullptr;
  const std::string prompt = request.at("prompt").string();
  TranslatedRequest chat;
  add_options(request, chat);
  add_structure(request, chat);
  chat.fields["stream"] = read_boolean(request, "stream", true);
  if (plain) {
    for (const char* const field : {"system", "think"}) {
      const auto value = request.find(field);
      if (value && !is_blank_value(*value)) value->fail("needs a chat template; leave it or raw out");
    }
    chat.fields["prompt"] = prompt;
    return read_completion(chat.fields.dump(), model, chat.names);
  }
  add_think(request, model, chat);
  if (const auto system = request.find("system")) {
    chat.add("messages", {{"role", "system"}, {"content", system->string()}}, "system");
  }
  chat.add("messages", {{"role", "user"}, {"content", prompt}}, "prompt");
  return read_chat(chat.fields.dump(), model, chat.names);
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

/// A request without a text has a model loaded, or removed with "keep_alive": 0. Here it stays.
std::optional<std::string> loading_answer(const std::string& body, const ServedModel& model, bool messages) {
  const Json request = parse_foreign(body);
  const auto text = request.find(messages ? "messages" : "prompt");
  if (text && !is_blank_value(*text)) return std::nullopt;
  const auto time = request.find("keep_alive");
  const bool removed =
      time && (time->is_string() ? time->string() == "0" || time->string() == "0s" : time->number() == 0);
  ForeignJson answer = {{"model", model.name}, {"created_at", now_text()}};
  if (messages) answer["message"] = {{"role", "assistant"}, {"content", ""}};
  else answer["response"] = "";
  answer.update({{"done", true}, {"done_reason", removed ? "unload" : "load"}});
  return text_of(answer) + "\n";
}

class OllamaWriter final : public AnswerWriter {
 public:
  OllamaWriter(const CompletionRequest& request, const ServedModel& model, const std::string& id, bool messages)
      : AnswerWriter(request, model, id), messages_(messages) {}

  std::string end_of_stream() override { return failure() ? "" : line(final_object("", "", {})); }
  std::string whole() const override { return text_of(final_object(told(0).text, told(0).thought, told(0).calls)); }

 private:
  static std::string line(const ForeignJson& json) { return text_of(json) + "\n"; }

  ForeignJson object(const std::string& text, const std::string& thought, const std::vector<ToldCall>& calls) const {
    ForeignJson result = {{"model", model_.name}, {"created_at", now_text()}};
    if (!messages_) {
      result["response"] = text;
      if (!thought.empty()) result["thinking"] = thought;
      return result;
    }
    ForeignJson message = {{"role", "assistant"}, {"content", text}};
    if (!thought.empty()) message["thinking"] = thought;
    for (const ToldCall& call : calls) {
      message["tool_calls"].push_back(
          {{"id", call.id}, {"function", {{"name", call.name}, {"arguments", object_or_empty(call.arguments)}}}});
    }
    result["message"] = std::move(message);
    return result;
  }

  ForeignJson final_object(const std::string& text, const std::string& thought,
                           const std::vector<ToldCall>& calls) const {
    const auto since = [](Clock::time_point then, Clock::time_point until) {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(until - then).count();
    };
    const Clock::time_point end = Clock::now();
    ForeignJson result = object(text, thought, calls);
    result.update({{"done", true},
                   {"done_reason", told(0).finish == "length" ? "length" : "stop"},
                   {"total_duration", since(begun(), end)},
                   {"load_duration", 0},
                   {"prompt_eval_count", usage().prompt_tokens},
                   {"prompt_eval_duration", since(begun(), first())},
                   {"eval_count", usage().completion_tokens},
                   {"eval_duration", since(first(), end)}});
    return result;
  }

  /// A call is told once it is whole, as its arguments are an object.
  std::string tell(const News& news) override {
    if (!request_.stream) return "";
    const std::string text = news.text();
    std::string thought;
    for (const ToldPart& part : news.parts) {
      if (part.kind == AnswerPart::Kind::thought) thought += part.text;
    }
    const std::vector<ToldCall>& all = told(0).calls;
    const std::size_t whole = told(0).finish.empty() && !all.empty() ? all.size() - 1 : all.size();
    const std::vector<ToldCall> calls(all.begin() + static_cast<std::ptrdiff_t>(std::min(told_calls_, whole)),
                                      all.begin() + static_cast<std::ptrdiff_t>(whole));
    told_calls_ = std::max(told_calls_, whole);
    if (text.empty() && thought.empty() && calls.empty()) return "";
    ForeignJson one = object(text, thought, calls);
    one["done"] = false;
    return line(one);
  }

  std::string tell_failure() override { return request_.stream ? ollama_chats.error(*failure(), 500) + "\n" : ""; }

  bool messages_;
  std::size_t told_calls_ = 0;
};

std::unique_ptr<AnswerWriter> chat_writer(const CompletionRequest& request, const ServedModel& model,
                                          const std::string& id, const std::string&) {
  return std::make_unique<OllamaWriter>(request, model, id, true);
}
std::unique_ptr<AnswerWriter> generate_writer(const CompletionRequest& request, const ServedModel& model,
                                              const std::string& id, const std::string&) {
  return std::make_unique<OllamaWriter>(request, model, id, false);
}

std::string ollama_error(const std::string& message, int) { return text_of({{"error", message}}); }

constexpr const char* lines = "application/x-ndjson";

ForeignJson listed_model(const ServedModel& model) {
  return {{"name", model.name},
          {"model", model.name},
          {"modified_at", "1970-01-01T00:00:00Z"},
          {"size", 0},
          {"digest", model.weights},
          {"details",
           {{"parent_model", ""},
            {"format", "draftproof"},
            {"family", ""},
            {"families", ForeignJson::array()},
            {"parameter_size", ""},
            {"quantization_level", ""}}}};
}

}  // namespace

const Api ollama_chats = {
    .read = read_ollama_chat,
    .writer = chat_writer,
    .error = ollama_error,
    .stream_type = lines,
    .at_once = [](const std::string& body, const ServedModel& model) { return loading_answer(body, model, true); }};
const Api ollama_generates = {
    .read = read_ollama_generate,
    .writer = generate_writer,
    .error = ollama_error,
    .stream_type = lines,
    .at_once = [](const std::string& body, const ServedModel& model) { return loading_answer(body, model, false); }};

std::string ollama_tags_json(std::span<const ListedModel> models) {
  auto list = ForeignJson::array();
  for (const ListedModel& one : models) list.push_back(listed_model(*one.model));
  return text_of({{"models", std::move(list)}});
}

std::string ollama_ps_json(std::span<const ListedModel> models) {
  auto list = ForeignJson::array();
  for (const auto& [model, loaded] : models) {
    if (!loaded) continue;
    list.push_back(listed_model(*model));
    list.back()["expires_at"] = "9999-12-31T23:59:59Z";
    list.back()["size_vram"] = 0;
    list.back()["context_length"] = model->context;
  }
  return text_of({{"models", std::move(list)}});
}

std::string ollama_show_json(const ServedModel& model) {
  auto abilities = ForeignJson::array({"completion"});
  const bool has_tools = model.chat != nullptr && model.tokenizer != nullptr;
  if (has_tools) abilities.push_back("tools");
  if (has_tools && AnswerFormat::of_template(model.chat->source(false)).thoughts != nullptr) {
    abilities.push_back("thinking");
  }
  return text_of(
      {{"modelfile", ""},
       {"parameters", ""},
       {"template", model.chat != nullptr ? model.chat->source(false) : ""},
       {"details", listed_model(model)["details"]},
       {"model_info", {{"general.architecture", "draftproof"}, {"draftproof.context_length", model.context}}},
       {"capabilities", std::move(abilities)}});
}

std::string ollama_version_json() { return text_of({{"version", "0.13.0"}}); }

}  // namespace draftproof::serve
