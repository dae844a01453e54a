// SPDX-License-Identifier: MIT
// The APIs of Anthropic and Ollama and OpenAI's responses: each gives the answer of the same chat, whole and in a
// stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ref/base/error.h"
#include "serve/response_store.h"
#include "tests/serve/running_server.h"

namespace draftproof::serve::other_apis_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string thinking =
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if enable_thinking %}<think>\n{% endif %}"
    "{# ends with </think> #}";

/// What an answer consists of, whatever API tells it.
struct Told {
  std::string thought, text;
  std::vector<std::pair<std::string, json>> calls;
  std::string end;
  int prompt_tokens = 0;
  int completion_tokens = 0;

  bool operator==(const Told&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Told& told) {
  out << "thought: " << told.thought << "\ntext: " << told.text << "\n";
  for (const auto& [name, arguments] : told.calls) out << name << " " << arguments << "\n";
  return out << told.end << " " << told.prompt_tokens << " " << told.completion_tokens;
}

std::string text_in(const json& object, const char* field) {
  return object.contains(field) && object[field].is_string() ? object[field].get<std::string>() : "";
}

Told told_by_chat(const json& answer) {
  const json& choice = answer.at("choices").at(0);
  const json& message = choice.at("message");
  Told told = {text_in(message, "reasoning_content"),
               text_in(message, "content"),
               {},
               choice.at("finish_reason"),
               answer.at("usage").at("prompt_tokens"),
               answer.at("usage").at("completion_tokens")};
  if (!message.contains("tool_calls")) return told;
  for (const json& call : message["tool_calls"]) {
    const json& function = call.at("function");
    told.calls.emplace_back(function.at("name"), json::parse(function.at("arguments").get<std::string>()));
  }
  return told;
}

std::string end_of(const std::string& word) {
  if (word == "end_turn" || word == "completed") return "stop";
  if (word == "max_tokens" || word == "incomplete") return "length";
  return word == "tool_use" ? "tool_calls" : word;
}

Told told_by_anthropic(const json& message) {
  Told told;
  for (const json& block : message.at("content")) {
    if (block.at("type") == "thinking") told.thought += block.at("thinking");
    else if (block.at("type") == "text") told.text += block.at("text");
    else told.calls.emplace_back(block.at("name"), block.at("input"));
  }
  const json& usage = message.at("usage");
  told.end = end_of(message.at("stop_reason"));
  told.prompt_tokens = usage.at("input_tokens").get<int>() + usage.at("cache_read_input_tokens").get<int>();
  told.completion_tokens = usage.at("output_tokens");
  return told;
}

Told told_by_responses(const json& response) {
  Told told;
  for (const json& item : response.at("output")) {
    if (item.at("type") == "reasoning") told.thought += item.at("content").at(0).at("text");
    else if (item.at("type") == "message") told.text += item.at("content").at(0).at("text");
    else told.calls.emplace_back(item.at("name"), json::parse(item.at("arguments").get<std::string>()));
  }
  told.end = end_of(response.at("status"));
  if (told.end == "stop" && !told.calls.empty()) told.end = "tool_calls";
  told.prompt_tokens = response.at("usage").at("input_tokens");
  told.completion_tokens = response.at("usage").at("output_tokens");
  return told;
}

Told told_by_ollama(const json& answer) {
  const json& message = answer.at("message");
  Told told = {text_in(message, "thinking"), text_in(message, "content"),    {},
               answer.at("done_reason"),     answer.at("prompt_eval_count"), answer.at("eval_count")};
  if (!message.contains("tool_calls")) return told;
  for (const json& call : message["tool_calls"]) {
    told.calls.emplace_back(call.at("function").at("name"), call.at("function").at("arguments"));
    told.end = "tool_calls";
  }
  return told;
}

/// The events of a stream: their types, and their data.
std::vector<std::pair<std::string, json>> events_of(const std::string& body) {
  std::vector<std::pair<std::string, json>> events;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find("\n\n", at);
    const std::size_t line = body.find('\n', at);
    EXPECT_EQ(body.substr(at, 7), "event: ");
    EXPECT_EQ(body.substr(line + 1, 6), "data: ");
    const std::string type = body.substr(at + 7, line - at - 7);
    events.emplace_back(type, json::parse(body.substr(line + 7, end - line - 7)));
    EXPECT_EQ(events.back().second.at("type"), type);
    at = end + 2;
  }
  return events;
}

/// The message that the events of Anthropic's API build.
json assembled_message(const std::string& body) {
  json message;
  bool open = false;
  std::string input;
  std::string last;
  for (const auto& [type, data] : events_of(body)) {
    last = type;
    if (type == "message_start") {
      message = data.at("message");
    } else if (type == "content_block_start") {
      EXPECT_FALSE(std::exchange(open, true));
      EXPECT_EQ(data.at("index"), message["content"].size());
      message["content"].push_back(data.at("content_block"));
      input.clear();
    } else if (type == "content_block_delta") {
      EXPECT_EQ(data.at("index").get<std::size_t>() + 1, message["content"].size());
      json& block = message["content"].back();
      const json& delta = data.at("delta");
      if (delta.at("type") == "input_json_delta") input += delta.at("partial_json");
      else if (delta.at("type") == "text_delta") block["text"] = text_in(block, "text") + text_in(delta, "text");
      else block["thinking"] = text_in(block, "thinking") + text_in(delta, "thinking");
    } else if (type == "content_block_stop") {
      EXPECT_TRUE(std::exchange(open, false));
      if (message["content"].back()["type"] == "tool_use") message["content"].back()["input"] = json::parse(input);
    } else if (type == "message_delta") {
      message.update(data.at("delta"));
      message["usage"].update(data.at("usage"));
    }
  }
  EXPECT_EQ(last, "message_stop");
  return message;
}

/// The response at the end of a stream, which its events have to agree with.
json ended_response(const std::string& body) {
  json items = json::array();
  json response;
  int number = 0;
  for (const auto& [type, data] : events_of(body)) {
    EXPECT_EQ(data.at("sequence_number"), number++);
    if (type == "response.output_item.added") {
      EXPECT_EQ(data.at("output_index"), items.size());
      items.push_back(data.at("item"));
    } else if (type == "response.content_part.added") {
      items.back()["content"] = json::array({data.at("part")});
    } else if (type == "response.output_text.delta" || type == "response.reasoning_text.delta") {
      json& part = items.back()["content"][0];
      part["text"] = text_in(part, "text") + text_in(data, "delta");
    } else if (type == "response.function_call_arguments.delta") {
      items.back()["arguments"] = text_in(items.back(), "arguments") + text_in(data, "delta");
    } else if (type == "response.output_item.done") {
      items.back()["status"] = data.at("item").at("status");
      EXPECT_EQ(items.back(), data.at("item"));
    } else if (type == "response.completed" || type == "response.incomplete") {
      response = data.at("response");
    }
  }
  EXPECT_EQ(response.at("output").size(), items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    json item = response["output"][i];
    item["status"] = items[i]["status"];
    EXPECT_EQ(item, items[i]);
  }
  return response;
}

/// The lines of a stream of Ollama as one answer.
json assembled_lines(const std::string& body) {
  json answer;
  std::string text, thought;
  json calls = json::array();
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find('\n', at);
    answer = json::parse(body.substr(at, end - at));
    const json& message = answer.at("message");
    text += text_in(message, "content");
    thought += text_in(message, "thinking");
    for (const json& call : message.value("tool_calls", json::array())) calls.push_back(call);
    EXPECT_EQ(answer.at("done"), end + 1 == body.size());
    at = end + 1;
  }
  answer["message"]["content"] = text;
  if (!thought.empty()) answer["message"]["thinking"] = thought;
  if (!calls.empty()) answer["message"]["tool_calls"] = calls;
  return answer;
}

/// A conversation as each API has it.
struct Asked {
  json chat, anthropic, responses, ollama;
};

Asked asked(bool tools, bool think) {
  const std::string system = "Be brief.";
  const std::string input = "A tale of a fox.";
  const json schema = {
      {"type", "object"}, {"properties", {{"city", {{"type", "string"}, {"maxLength", 9}}}}}, {"required", {"city"}}};
  Asked request;
  request.chat = {{"messages", {{{"role", "system"}, {"content", system}}, {{"role", "user"}, {"content", input}}}},
                  {"max_tokens", 90},
                  {"seed", 5},
                  {"temperature", 0.5},
                  {"parallel_tool_calls", false}};
  request.anthropic = {
      {"model", "m"},       {"max_tokens", 90},
      {"system", system},   {"seed", 5},
      {"temperature", 0.5}, {"messages", {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", input}}}}}}}};
  request.responses = {{"model", "m"}, {"max_output_tokens", 90}, {"instructions", system},      {"input", input},
                       {"seed", 5},    {"temperature", 0.5},      {"parallel_tool_calls", false}};
  request.ollama = {{"model", "m"},
                    {"messages", request.chat["messages"]},
                    {"options", {{"num_predict", 90}, {"seed", 5}, {"temperature", 0.5}, {"num_ctx", 4096}}}};
  request.chat["chat_template_kwargs"] = {{"enable_thinking", think}};
  request.anthropic["thinking"] = {{"type", think ? "enabled" : "disabled"}};
  request.ollama["think"] = think;
  if (!tools) return request;
  const json function = {{"name", "get_weather"}, {"description", "Weather"}, {"parameters", schema}};
  request.chat["tools"] = {{{"type", "function"}, {"function", function}}};
  request.chat["tool_choice"] = "required";
  request.anthropic["tools"] = {{{"name", "get_weather"}, {"description", "Weather"}, {"input_schema", schema}}};
  request.anthropic["tool_choice"] = {{"type", "any"}, {"disable_parallel_tool_use", true}};
  json flat = {{"type", "function"}};
  flat.update(function);
  request.responses["tools"] = json::array({flat});
  request.responses["tool_choice"] = "required";
  return request;
}

std::string streamed(const RunningServer& server, const std::string& path, json request) {
  request["stream"] = true;
  return server.post(path, request)->body;
}

TEST(OtherApis, GiveTheAnswerOfTheSameChat) {
  for (const bool tools : {false, true}) {
    const RunningServer server;
    const Asked request = asked(tools, false);
    const Told expected = told_by_chat(server.answer("/v1/chat/completions", request.chat));
    EXPECT_EQ(expected.calls.size(), tools ? 1U : 0U);
    EXPECT_EQ(told_by_anthropic(server.answer("/v1/messages", request.anthropic)), expected);
    EXPECT_EQ(told_by_anthropic(assembled_message(streamed(server, "/v1/messages", request.anthropic))), expected);
    EXPECT_EQ(told_by_responses(server.answer("/v1/responses", request.responses)), expected);
    EXPECT_EQ(told_by_responses(ended_response(streamed(server, "/v1/responses", request.responses))), expected);
    if (tools) continue;  // Ollama has no tool_choice
    json whole = request.ollama;
    whole["stream"] = false;
    EXPECT_EQ(told_by_ollama(server.answer("/api/chat", whole)), expected);
    EXPECT_EQ(told_by_ollama(assembled_lines(server.post("/api/chat", request.ollama)->body)), expected);
    const json counted = server.answer("/v1/messages/count_tokens", request.anthropic);
    EXPECT_EQ(counted.at("input_tokens"), expected.prompt_tokens);
  }
}

TEST(OtherApis, TellThoughtsApart) {
  const RunningServer server({.chat_template = thinking});
  const Asked request = asked(false, true);
  const json chat = server.answer("/v1/chat/completions", request.chat);
  const Told expected = told_by_chat(chat);
  EXPECT_NE(expected.thought, "");
  EXPECT_EQ(chat.at("usage").at("completion_tokens_details").at("reasoning_tokens"), expected.completion_tokens);
  EXPECT_EQ(told_by_anthropic(server.answer("/v1/messages", request.anthropic)), expected);
  EXPECT_EQ(told_by_anthropic(assembled_message(streamed(server, "/v1/messages", request.anthropic))), expected);
  EXPECT_EQ(told_by_ollama(assembled_lines(server.post("/api/chat", request.ollama)->body)), expected);
  const Told quiet = told_by_chat(server.answer("/v1/chat/completions", asked(false, false).chat));
  EXPECT_EQ(quiet.thought, "");
  EXPECT_EQ(told_by_anthropic(server.answer("/v1/messages", asked(false, false).anthropic)), quiet);
}

TEST(OtherApis, CarryCallsAndTheirAnswers) {
  const RunningServer server;
  const json call = {
      {"id", "abc"}, {"type", "function"}, {"function", {{"name", "now"}, {"arguments", "{\"zone\": \"UTC\"}"}}}};
  json chat = {{"messages",
                {{{"role", "user"}, {"content", "When?"}},
                 {{"role", "assistant"}, {"content", "Hm."}, {"tool_calls", json::array({call})}},
                 {{"role", "tool"}, {"tool_call_id", "abc"}, {"content", "12:00"}}}},
               {"max_tokens", 20},
               {"seed", 3}};
  const Told expected = told_by_chat(server.answer("/v1/chat/completions", chat));
  const json anthropic = {
      {"model", "m"},
      {"max_tokens", 20},
      {"seed", 3},
      {"messages",
       {{{"role", "user"}, {"content", "When?"}},
        {{"role", "assistant"},
         {"content",
          {{{"type", "text"}, {"text", "Hm."}},
           {{"type", "tool_use"}, {"id", "abc"}, {"name", "now"}, {"input", {{"zone", "UTC"}}}}}}},
        {{"role", "user"}, {"content", {{{"type", "tool_result"}, {"tool_use_id", "abc"}, {"content", "12:00"}}}}}}}};
  EXPECT_EQ(told_by_anthropic(server.answer("/v1/messages", anthropic)), expected);
  const json responses = {
      {"model", "m"},
      {"max_output_tokens", 20},
      {"seed", 3},
      {"input",
       {{{"role", "user"}, {"content", "When?"}},
        {{"type", "message"}, {"role", "assistant"}, {"content", {{{"type", "output_text"}, {"text", "Hm."}}}}},
        {{"type", "function_call"}, {"call_id", "abc"}, {"name", "now"}, {"arguments", "{\"zone\": \"UTC\"}"}},
        {{"type", "function_call_output"}, {"call_id", "abc"}, {"output", "12:00"}}}}};
  EXPECT_EQ(told_by_responses(server.answer("/v1/responses", responses)), expected);
  json ollama = {{"model", "m"},
                 {"stream", false},
                 {"options", {{"num_predict", 20}, {"seed", 3}}},
                 {"messages", chat["messages"]}};
  ollama["messages"][1]["tool_calls"][0]["function"]["arguments"] = {{"zone", "UTC"}};
  EXPECT_EQ(told_by_ollama(server.answer("/api/chat", ollama)), expected);
}

TEST(OtherApis, OfOllamaSayWhatTheyServeAndContinueTexts) {
  const RunningServer server;
  const auto get = [&](const std::string& path) { return json::parse(server.client().Get(path)->body); };
  EXPECT_EQ(get("/api/tags").at("models").at(0).at("name"), "tale");
  EXPECT_EQ(get("/api/ps").at("models").size(), 1U);
  EXPECT_TRUE(get("/api/version").contains("version"));
  EXPECT_THAT(server.answer("/api/show", {{"model", "tale"}}).at("capabilities").dump(), HasSubstr("tools"));
  const json plain = {{"prompt", "Once upon"}, {"max_tokens", 20}, {"seed", 3}};
  const json raw = {{"model", "m"},
                    {"prompt", "Once upon"},
                    {"raw", true},
                    {"stream", false},
                    {"options", {{"num_predict", 20}, {"seed", 3}}}};
  EXPECT_EQ(server.answer("/api/generate", raw).at("response"),
            server.answer("/v1/completions", plain).at("choices").at(0).at("text"));
  json chat = raw;
  chat.erase("raw");
  chat["system"] = "Be brief.";
  const json messages = {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "Once upon"}}};
  EXPECT_EQ(server.answer("/api/generate", chat).at("response"),
            server.answer("/v1/chat/completions", {{"messages", messages}, {"max_tokens", 20}, {"seed", 3}})
                .at("choices")
                .at(0)
                .at("message")
                .at("content"));
}

TEST(OtherApis, OfOllamaAreToldThatTheModelIsThere) {
  const RunningServer server;
  const auto reason = [&](const std::string& path, const json& request) {
    const json answer = server.answer(path, request);
    EXPECT_TRUE(answer.at("done").get<bool>());
    EXPECT_EQ(path == "/api/chat" ? answer.at("message").at("content") : answer.at("response"), "");
    return answer.at("done_reason").get<std::string>();
  };
  EXPECT_EQ(reason("/api/chat", {{"model", "m"}, {"messages", json::array()}}), "load");
  EXPECT_EQ(reason("/api/chat", {{"model", "m"}, {"keep_alive", 0}}), "unload");
  EXPECT_EQ(reason("/api/generate", {{"model", "m"}, {"prompt", ""}, {"keep_alive", "5m"}}), "load");
  EXPECT_EQ(reason("/api/generate", {{"model", "m"}, {"keep_alive", "0"}}), "unload");
  EXPECT_EQ(server.answer("/api/generate", {{"model", "m"}, {"prompt", "Once"}, {"keep_alive", 0}, {"stream", false}})
                .at("done_reason"),
            "length");
}

TEST(OtherApis, NameAFieldInErrorsAsTheirClientsDo) {
  const RunningServer server;
  const auto error = [&](const std::string& path, json request, const json& more) {
    request.update(more);
    const auto result = server.post(path, request);
    EXPECT_EQ(result->status, 400) << result->body;
    const json told = json::parse(result->body).at("error");
    return told.is_string() ? told.get<std::string>() : told.at("message").get<std::string>();
  };
  const auto field = [](const std::string& name) { return HasSubstr("field " + name + ":"); };
  const json odd_schema = {{"type", "object"}, {"properties", {{"a", {{"type", "odd"}}}}}};
  const json message = {{"role", "user"}, {"content", "x"}};

  const json anthropic = {{"model", "m"}, {"max_tokens", 5}, {"system", "s"}, {"messages", json::array({message})}};
  const auto of_anthropic = [&](const json& more) { return error("/v1/messages", anthropic, more); };
  EXPECT_THAT(of_anthropic({{"stop_sequences", {1}}}), field("stop_sequences[0]"));
  EXPECT_THAT(of_anthropic({{"thinking", {{"type", "enabled"}, {"budget_tokens", -5}}}}),
              field("thinking.budget_tokens"));
  EXPECT_THAT(of_anthropic({{"tools", {{{"name", "a b"}, {"input_schema", json::object()}}}}}), field("tools[0].name"));
  EXPECT_THAT(of_anthropic({{"tools", {{{"name", "f"}, {"input_schema", 5}}}}}), field("tools[0].input_schema"));
  EXPECT_THAT(of_anthropic({{"tools", {{{"name", "f"}, {"input_schema", {{"type", "object"}}}}}},
                            {"tool_choice", {{"type", "tool"}, {"name", "g"}}}}),
              field("tool_choice.name"));
  const json use = {{"type", "tool_use"}, {"id", "1"}, {"name", "a b"}, {"input", json::object()}};
  const json text = {{"type", "text"}, {"text", "x"}};
  EXPECT_THAT(of_anthropic({{"messages", {message, {{"role", "assistant"}, {"content", {text, use}}}}}}),
              field("messages[1].content[1].name"));

  const json responses = {{"model", "m"}, {"instructions", "s"}, {"input", "x"}};
  const auto of_responses = [&](const json& more) { return error("/v1/responses", responses, more); };
  EXPECT_THAT(of_responses({{"max_output_tokens", -1}}), field("max_output_tokens"));
  EXPECT_THAT(of_responses({{"reasoning", {{"effort", "low"}}}}), field("reasoning.effort"));
  const json format = {{"type", "json_schema"}, {"schema", odd_schema}};
  EXPECT_THAT(of_responses({{"text", {{"format", format}}}}), field("text.format.schema.properties.a.type"));
  EXPECT_THAT(of_responses({{"tools", {{{"type", "function"}, {"name", "a b"}}}}}), field("tools[0].name"));
  EXPECT_THAT(of_responses({{"input", {{{"role", "owner"}, {"content", "x"}}}}}), field("input[0].role"));
  EXPECT_THAT(of_responses({{"input", json::array()}, {"instructions", nullptr}}), field("input"));
  const json call = {{"type", "function_call"}, {"call_id", "1"}, {"name", "f"}, {"arguments", "{"}};
  EXPECT_THAT(of_responses({{"input", {message, call}}}), HasSubstr("field input[1].arguments"));

  const json ollama = {{"model", "m"}, {"messages", json::array({message})}};
  const auto of_ollama = [&](const json& more) { return error("/api/chat", ollama, more); };
  EXPECT_THAT(of_ollama({{"options", {{"num_predict", 0.5}}}}), field("options.num_predict"));
  EXPECT_THAT(of_ollama({{"options", {{"repeat_penalty", -1}}}}), field("options.repeat_penalty"));
  EXPECT_THAT(of_ollama({{"options", {{"tfs_z", 0.5}}}}), field("options.tfs_z"));
  EXPECT_THAT(of_ollama({{"format", odd_schema}}), field("format.properties.a.type"));
  EXPECT_THAT(of_ollama({{"think", "low"}}), field("think"));
}

TEST(OtherApis, OfLlamaServerContinueTexts) {
  const RunningServer server;
  const json ours = server.answer("/v1/completions", {{"prompt", "Once upon"}, {"max_tokens", 20}, {"seed", 3}});
  json request = {{"prompt", "Once upon"}, {"n_predict", 20}, {"seed", 3}};
  const json answer = server.answer("/completion", request);
  const json& choice = ours.at("choices").at(0);
  EXPECT_EQ(answer.at("content"), choice.at("text"));
  EXPECT_EQ(answer.at("stop_type"), choice.at("finish_reason") == "length" ? "limit" : "eos");
  EXPECT_EQ(answer.at("tokens_predicted"), ours.at("usage").at("completion_tokens"));
  request["stream"] = true;
  const std::string body = server.post("/completion", request)->body;
  std::string text;
  json last;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find("\n\n", at);
    last = json::parse(body.substr(at + 6, end - at - 6));
    text += last.at("content").get<std::string>();
    EXPECT_EQ(last.at("stop"), end + 2 == body.size());
    at = end + 2;
  }
  EXPECT_EQ(text, choice.at("text").get<std::string>());
  request = {{"prompt", "Once upon a time"}, {"n_predict", 40}, {"seed", 3}, {"stop", {" the"}}};
  const json stopped = server.answer("/completion", request);
  EXPECT_EQ(stopped.at("stop_type"), "word");
  EXPECT_EQ(stopped.at("stopping_word"), " the");
  EXPECT_TRUE(json::parse(server.client().Get("/props")->body).contains("default_generation_settings"));
  const json slots = json::parse(server.client().Get("/slots")->body);
  EXPECT_EQ(slots.size(), 8);
  EXPECT_EQ(slots[7]["id"], 7);
  EXPECT_EQ(slots[0]["is_processing"], false);
  EXPECT_THAT(server.post("/v1/embeddings", {{"input", "x"}})->body, HasSubstr("has no embeddings"));
}

TEST(OtherApis, AResponseGoesOnWithAnEarlierOneOfTheSameKey) {
  const RunningServer server({.api_keys = {"one", "two"}});
  const auto headers = [](const char* key) {
    return httplib::Headers{{"Authorization", std::string("Bearer ") + key}};
  };
  const auto post = [&](const json& body, const char* key) {
    return server.client().Post("/v1/responses", headers(key), body.dump(), "application/json");
  };
  const json begin = {{"input", "A tale"}, {"instructions", "Be brief."}, {"max_output_tokens", 12}, {"seed", 2}};
  json middle = {{"input", {{{"role", "user"}, {"content", "And then?"}}}}, {"max_output_tokens", 12}, {"seed", 3}};
  json end = {{"input", "Why?"}, {"max_output_tokens", 12}, {"seed", 4}, {"instructions", "Be kind."}};
  const json first = json::parse(post(begin, "one")->body);
  EXPECT_EQ(first["store"], true);
  middle["previous_response_id"] = first["id"];
  json streamed_middle = middle;
  streamed_middle["stream"] = true;
  const std::string events = post(streamed_middle, "one")->body;  // a stream is kept too
  const json second = json::parse(events.substr(events.rfind("data: ") + 6))["response"];
  EXPECT_EQ(second["previous_response_id"], first["id"]);
  EXPECT_EQ(told_by_responses(second), told_by_responses(json::parse(post(middle, "one")->body)));
  end["previous_response_id"] = second["id"];
  const json third = json::parse(post(end, "one")->body);
  const auto said = [](const json& response) { return told_by_responses(response).text; };
  const json whole = {{"seed", 4},
                      {"max_tokens", 12},
                      {"messages",
                       {{{"role", "system"}, {"content", "Be kind."}},  // instructions are of one request
                        {{"role", "user"}, {"content", "A tale"}},
                        {{"role", "assistant"}, {"content", said(first)}},
                        {{"role", "user"}, {"content", "And then?"}},
                        {{"role", "assistant"}, {"content", said(second)}},
                        {{"role", "user"}, {"content", "Why?"}}}}};
  const auto chat = server.client().Post("/v1/chat/completions", headers("one"), whole.dump(), "application/json");
  EXPECT_EQ(told_by_responses(third), told_by_chat(json::parse(chat->body)));

  EXPECT_EQ(post(middle, "two")->status, 400);  // another's
  const std::string path = "/v1/responses/" + first["id"].get<std::string>();
  EXPECT_EQ(server.client().Get(path, headers("two"))->status, 404);
  EXPECT_EQ(server.client().Delete(path, headers("two"))->status, 404);
  EXPECT_EQ(json::parse(server.client().Get(path, headers("one"))->body), first);
  EXPECT_EQ(json::parse(server.client().Delete(path, headers("one"))->body)["deleted"], true);
  EXPECT_EQ(server.client().Get(path, headers("one"))->status, 404);
  EXPECT_EQ(post(middle, "one")->status, 400);
  json silent = begin;
  silent["store"] = false;
  const json unknown = json::parse(post(silent, "one")->body);
  EXPECT_EQ(unknown["store"], false);
  EXPECT_EQ(server.client().Get("/v1/responses/" + unknown["id"].get<std::string>(), headers("one"))->status, 404);
}

TEST(ResponseStore, ForgetsTheOldestWhenThereIsTooMuch) {
  ResponseStore store(1000, 1000);
  const auto response = [](int i) {
    const json output = {{{"type", "message"}, {"role", "assistant"}, {"content", "x"}}};
    return json{{"id", "r" + std::to_string(i)}, {"output", output}}.dump();
  };
  for (int i = 0; i < 20; ++i) store.add(R"({"input": "abc"})", response(i), 0);
  int kept = 0;
  for (int i = 0; i < 20; ++i) {
    const bool here = store.find("r" + std::to_string(i), 0).has_value();
    EXPECT_TRUE(here || kept == 0);  // none older than one that is kept
    kept += here ? 1 : 0;
  }
  EXPECT_GT(kept, 2);
  EXPECT_LT(kept, 8);
  store.add(json{{"input", std::string(2000, 'x')}}.dump(), response(21), 0);  // more than all may have
  EXPECT_FALSE(store.find("r21", 0));
  EXPECT_FALSE(store.find("r19", 0));
}

TEST(ResponseStore, OfAKeyThatStoresMuchAnotherLosesNothing) {
  ResponseStore store(1000, 1000);
  const auto add = [&](const std::string& id, int tenant) {
    store.add(R"({"input": "abc"})", json{{"id", id}, {"output", json::array()}}.dump(), tenant);
  };
  add("mine", 1);
  for (int i = 0; i < 30; ++i) add("r" + std::to_string(i), 2);
  EXPECT_TRUE(store.find("mine", 1));
  EXPECT_TRUE(store.find("r29", 2));
  EXPECT_FALSE(store.find("r0", 2));
}

TEST(ResponseStore, LeavesAnInputThatIsNeitherTextNorAListToItsReader) {
  ResponseStore store(10'000, 10'000);
  store.add(json{{"input", "x"}}.dump(), json{{"id", "r"}, {"output", json::array()}}.dump(), 0);
  for (const json& input : {json(5), json{{"a", {{"role", "user"}, {"content", "y"}}}}}) {
    const std::string body = json{{"input", input}, {"previous_response_id", "r"}}.dump();
    EXPECT_EQ(store.resolve(body, 0), body);
  }
}

TEST(ResponseStore, RefusesToGoOnWithAConversationThatIsTooLong) {
  ResponseStore store(10'000, 1000);
  const auto add = [&](int i, std::size_t length) {
    const json body = {{"input", std::string(length, 'x')}};
    store.add(body.dump(), json{{"id", "r" + std::to_string(i)}, {"output", json::array()}}.dump(), 0);
  };
  const auto resolved = [&](int i) {
    return store.resolve(json{{"input", "y"}, {"previous_response_id", "r" + std::to_string(i)}}.dump(), 0);
  };
  add(1, 500);
  add(2, 1500);
  EXPECT_EQ(json::parse(resolved(1))["input"].size(), 2);
  EXPECT_THROW(resolved(2), Error);
  EXPECT_THROW(resolved(3), Error);
}

TEST(OtherApis, RefuseInTheirOwnFormWhatTheyCannotObey) {
  const RunningServer server({.api_keys = {"sesame"}});
  const auto post = [&](const std::string& path, const json& body, const httplib::Headers& headers) {
    return server.client().Post(path, headers, body.dump(), "application/json");
  };
  const httplib::Headers bearer = {{"Authorization", "Bearer sesame"}};
  const httplib::Headers anthropic = {{"x-api-key", "sesame"}};
  EXPECT_EQ(json::parse(post("/v1/messages", {}, {})->body).at("error").at("type"), "authentication_error");
  const json image = {
      {"model", "m"}, {"max_tokens", 5}, {"messages", {{{"role", "user"}, {"content", {{{"type", "image"}}}}}}}};
  const auto refused = post("/v1/messages", image, anthropic);
  EXPECT_EQ(refused->status, 400);
  EXPECT_THAT(json::parse(refused->body).at("error").at("message").get<std::string>(),
              HasSubstr("messages[0].content[0].type"));
  const json earlier = {{"model", "m"}, {"input", "x"}, {"previous_response_id", "resp_1"}};
  const json error = json::parse(post("/v1/responses", earlier, bearer)->body).at("error");
  EXPECT_EQ(error.at("param"), "previous_response_id");
  EXPECT_EQ(error.at("type"), "invalid_request_error");
  const json odd = {
      {"model", "m"}, {"messages", {{{"role", "user"}, {"content", "x"}}}}, {"options", {{"mirostat_lr", 1}}}};
  EXPECT_THAT(json::parse(post("/api/chat", odd, bearer)->body).at("error").get<std::string>(),
              HasSubstr("mirostat_lr"));
  std::string long_text;
  for (int i = 0; i < 2000; ++i) long_text += "word ";
  const json too_long = {{"prompt", long_text}};
  EXPECT_EQ(json::parse(post("/v1/completions", too_long, bearer)->body).at("error").at("code"),
            "context_length_exceeded");
  const json message = {{{"role", "user"}, {"content", "x"}}};
  for (const char* const path : {"/v1/chat/completions/", "/chat/completions", "/chat/completions/"}) {
    EXPECT_EQ(post(path, {{"messages", message}, {"max_tokens", 1}}, bearer)->status, 200) << path;
  }
}

}  // namespace
}  // namespace draftproof::serve::other_apis_test
