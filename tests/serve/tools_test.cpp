// SPDX-License-Identifier: MIT
// Tools and thoughts in chats: what is demanded holds, with a draft and without, whole and in a stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "serve/chat_request.h"
#include "tests/sanitized.h"
#include "tests/serve/running_server.h"

namespace draftproof::serve::tools_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string path = "/v1/chat/completions";

json weather(bool strict = false) {
  return {{"type", "function"},
          {"function",
           {{"name", "get_weather"},
            {"description", "Tells the weather"},
            {"strict", strict},
            {"parameters",
             {{"type", "object"},
              {"properties",
               {{"city", {{"type", "string"}, {"maxLength", 12}}},
                {"days", {{"type", "integer"}, {"minimum", 1}, {"maximum", 9}}}}},
              {"required", {"city", "days"}}}}}}};
}
const json now = {{"type", "function"}, {"function", {{"name", "now"}}}};

json chat(const std::string& content = "How warm is it?") {
  return {{"messages", {{{"role", "user"}, {"content", content}}}}, {"max_tokens", 120}, {"seed", 7}};
}

/// One answer put together from its stream, in the form of a whole one.
json assembled(const std::vector<json>& chunks) {
  json message = {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}};
  json finish;
  for (const json& chunk : chunks) {
    for (const json& choice : chunk["choices"]) {
      if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
      const json& delta = choice["delta"];
      for (const char* const field : {"content", "reasoning_content"}) {
        if (delta.contains(field)) message[field] = message.value(field, "") + delta[field].get<std::string>();
      }
      if (!delta.contains("tool_calls")) continue;
      for (const json& call : delta["tool_calls"]) {
        const std::size_t index = call["index"];
        if (call.contains("id")) {
          EXPECT_EQ(index, message.contains("tool_calls") ? message["tool_calls"].size() : 0);
          message["tool_calls"].push_back({{"id", ""}, {"type", "function"}, {"function", call["function"]}});
        } else {
          auto& arguments = message["tool_calls"][index]["function"]["arguments"];
          arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
        }
      }
    }
  }
  if (message.contains("tool_calls") && message["content"] == "") message["content"] = nullptr;
  return {{"message", message}, {"finish_reason", finish}};
}

/// Without ids, which every answer has of its own.
json choice_of(const json& answer) {
  json choice = {{"message", answer["choices"][0]["message"]},
                 {"finish_reason", answer["choices"][0]["finish_reason"]}};
  if (choice["message"].contains("tool_calls")) {
    for (json& call : choice["message"]["tool_calls"]) call["id"] = "";
  }
  return choice;
}

/// Asks in every way, which all give the same answer.
json asked(const RunningServer& server, json request) {
  const json whole = server.answer(path, request);
  if (!whole.contains("choices")) return whole;
  EXPECT_EQ(choice_of(whole), assembled(server.stream(path, request)));
  request["speculative"] = false;
  EXPECT_EQ(choice_of(whole), choice_of(server.answer(path, request))) << "without a draft";
  return whole;
}

TEST(Tools, ACallThatIsDemandedFollowsTheSchemaWithADraftAndWithout) {
  const RunningServer server;
  for (int seed = 0; seed < 6; ++seed) {
    json request = chat();
    request["tools"] = {weather(), now};
    request["tool_choice"] = "required";
    request["parallel_tool_calls"] = false;
    request["seed"] = seed;
    const json answer = asked(server, request);
    const json& choice = answer["choices"][0];
    ASSERT_EQ(choice["finish_reason"], "tool_calls") << answer;
    EXPECT_TRUE(choice["message"]["content"].is_null());
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U);
    const json& call = choice["message"]["tool_calls"][0];
    EXPECT_EQ(call["type"], "function");
    EXPECT_EQ(call["id"].get<std::string>().size(), 9U);
    const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
    if (call["function"]["name"] == "now") {
      EXPECT_EQ(arguments, json::object());
      continue;
    }
    EXPECT_EQ(call["function"]["name"], "get_weather");
    EXPECT_TRUE(arguments["city"].is_string());
    EXPECT_GE(arguments["days"], 1);
    EXPECT_LE(arguments["days"], 9);
  }
}

TEST(Tools, ANamedToolIsTheOneThatIsCalled) {
  const RunningServer server;
  json request = chat();
  request["tools"] = {weather(), now};
  request["tool_choice"] = {{"type", "function"}, {"function", {{"name", "now"}}}};
  const json message = asked(server, request)["choices"][0]["message"];
  ASSERT_EQ(message["tool_calls"].size(), 1U);
  EXPECT_EQ(message["tool_calls"][0]["function"], (json{{"name", "now"}, {"arguments", "{}"}}));
}

TEST(Tools, ArgumentsInOtherNotationsThanJsonFollowTheSchemaToo) {
  const json schema = {{"type", "object"},
                       {"properties",
                        {{"city", {{"enum", {"Rome", "New York"}}}},
                         {"days", {{"type", "integer"}, {"minimum", 1}, {"maximum", 9}}},
                         {"now", {{"type", "boolean"}}}}},
                       {"required", {"city", "days", "now"}}};
  const json tool = {{"type", "function"},
                     {"function", {{"name", "get_weather"}, {"strict", true}, {"parameters", schema}}}};
  for (const char* const sign :
       {"<|tool_call_start|>", "<|tool_call><tool_call|>", "]<]minimax[>[", "<function_calls>"}) {
    const std::string source = std::string("{% for m in messages %}{{ m.content }}\n{% endfor %}{# ") + sign + " #}";
    const RunningServer server({.chat_template = source});
    json request = chat();
    request["tools"] = json::array({tool});
    request["tool_choice"] = "required";
    request["parallel_tool_calls"] = false;
    request["max_tokens"] = 400;
    const json answer = asked(server, request);
    ASSERT_EQ(answer["choices"][0]["finish_reason"], "tool_calls") << sign << answer;
    const json function = answer["choices"][0]["message"]["tool_calls"][0]["function"];
    EXPECT_EQ(function["name"], "get_weather");
    const json arguments = json::parse(function["arguments"].get<std::string>());
    EXPECT_TRUE(arguments["city"] == "Rome" || arguments["city"] == "New York") << sign << arguments;
    EXPECT_TRUE(arguments["days"].is_number_integer() && arguments["now"].is_boolean()) << sign << arguments;
  }
}

TEST(Tools, WhereTheModelDecidesAndIsNotHeldAnAnswerIsThatOfTheSamePrompt) {
  const RunningServer server;
  json request = chat();
  request["tools"] = json::array({weather()});
  const json free = asked(server, request);
  request["tools"] = json::array({weather(true)});
  const json strict = asked(server, request);
  EXPECT_FALSE(free["choices"][0]["message"].contains("tool_calls")) << "the tale model knows no tools";
  request["tool_choice"] = "none";
  const json none = asked(server, request);
  request.erase("tools");
  request.erase("tool_choice");
  const json without = asked(server, request);
  EXPECT_EQ(choice_of(none), choice_of(without));
  EXPECT_GT(free["usage"]["prompt_tokens"], without["usage"]["prompt_tokens"]) << "it is told of the tools";
}

TEST(Tools, AConversationWithCallsIsWrittenAsTheTemplateHasIt) {
  // Says what it was given, so that prompts of the same text have as many tokens.
  const std::string shows =
      "{% for m in messages %}{{ m.role }}|{{ m.content }}|{{ m.reasoning_content }}"
      "{% for c in m.tool_calls %}<tool_call>{{ c.id }}|{{ c.function.name }}|{{ c.function.arguments | tojson }}"
      "{% endfor %}|{{ m.tool_call_id }}\n{% endfor %}{{ tools | tojson }}";
  const RunningServer server({.chat_template = shows});
  json request = chat();
  request["tools"] = json::array({now});
  const json called = {{"name", "now"}, {"arguments", "{\"a\": [1]}"}};
  const json call = {{"id", "abc"}, {"type", "function"}, {"function", called}};
  request["messages"].push_back({{"role", "assistant"},
                                 {"content", nullptr},
                                 {"reasoning_content", "Hm"},
                                 {"tool_calls", json::array({call})},
                                 {"refusal", nullptr}});
  request["messages"].push_back({{"role", "tool"}, {"tool_call_id", "abc"}, {"content", "12:00"}});
  const json answer = server.answer(path, request);
  const std::string expected =
      "user|How warm is it?||\nassistant||Hm<tool_call>abc|now|{\"a\": [1]}|\ntool|12:00||abc\n"
      "[{\"type\": \"function\", \"function\": {\"name\": \"now\"}}]";
  const json plain = server.answer("/v1/completions", {{"prompt", expected}, {"max_tokens", 20}, {"seed", 7}});
  ASSERT_TRUE(plain.contains("usage") && answer.contains("usage")) << answer << plain;
  EXPECT_EQ(answer["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"]);
}

TEST(Chats, GoOnWithTheLastMessageWhereTheyAreAskedTo) {
  const RunningServer server;
  json request = chat("A tale.");
  request["max_tokens"] = 20;
  request["messages"].push_back({{"role", "assistant"}, {"content", "Once upon a time, in "}});
  request["continue_final_message"] = true;
  const std::string text = "<|im_start|>user\nA tale.<|im_end|>\n<|im_start|>assistant\nOnce upon a time, in ";
  const json tokens = server.answer("/tokenize", {{"content", text}, {"parse_special", true}})["tokens"];
  const json plain = server.answer("/v1/completions", {{"prompt", tokens}, {"max_tokens", 20}, {"seed", 7}});
  EXPECT_EQ(asked(server, request)["choices"][0]["message"]["content"], plain["choices"][0]["text"]);
  request["messages"].erase(1);
  EXPECT_THAT(server.answer(path, request)["error"].value("message", ""), HasSubstr("last message of the assistant"));
  request.erase("continue_final_message");
  request["add_generation_prompt"] = false;
  const json without = server.answer(path, request);
  request["add_generation_prompt"] = true;
  EXPECT_LT(without["usage"]["prompt_tokens"], server.answer(path, request)["usage"]["prompt_tokens"]);
}

/// The text of the last message is looked for in what users wrote, not in what the template did.
TEST(Chats, GoOnWithALastMessageThatTheTemplateHasToo) {
  const RunningServer server;
  for (const char* const last : {"<", "e", "im_end", "assistant"}) {
    json request = chat("A tale.");
    request["max_tokens"] = 1;
    request["messages"].push_back({{"role", "assistant"}, {"content", last}});
    request["continue_final_message"] = true;
    const std::string text = "<|im_start|>user\nA tale.<|im_end|>\n<|im_start|>assistant\n";
    const json before = server.answer("/tokenize", {{"content", text}, {"parse_special", true}})["tokens"];
    const json after = server.answer("/tokenize", {{"content", last}, {"parse_special", false}})["tokens"];
    EXPECT_LE(server.answer(path, request)["usage"]["prompt_tokens"], before.size() + after.size()) << last;
  }
}

TEST(Chats, KeepTheBlanksThatContentBeginsWith) {
  const RunningServer server;
  json request = chat();
  request["grammar"] = "root ::= \" \\n world\"";
  EXPECT_EQ(asked(server, request)["choices"][0]["message"]["content"], " \n world");
}

TEST(Tools, ACallThatWasCutOffIsNoneToActOn) {
  const RunningServer server;
  json request = chat();
  request["tools"] = json::array({weather()});
  request["tool_choice"] = "required";
  request["stop"] = {"\"city"};
  EXPECT_EQ(asked(server, request)["choices"][0]["finish_reason"], "stop");
  request.erase("stop");
  request["max_tokens"] = 12;
  EXPECT_EQ(asked(server, request)["choices"][0]["finish_reason"], "length");
}

TEST(Tools, RequestsThatExplodeAreRefusedInAMoment) {
  const RunningServer server;
  json chain = {{"$ref", "#/$defs/d0"}, {"$defs", json::object()}};
  for (int i = 0; i < 20000; ++i) {
    chain["$defs"]["d" + std::to_string(i)] = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
  }
  json request = chat();
  request["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"schema", chain}}}};
  EXPECT_THAT(server.post(path, request)->body, HasSubstr("nests too deep"));
  json many = json::object();
  for (int i = 0; i < 50000; ++i) many["k" + std::to_string(i)] = i;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(server.post("/v1/responses", {{"input", "x"}, {"metadata", many}})->body, HasSubstr("more than 1024"));
  EXPECT_EQ(
      server
          .post("/v1/messages/count_tokens", {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"metadata", many}})
          ->status,
      400);
  json required = {{"type", "object"}, {"properties", json::object()}, {"required", json::array()}};
  for (int i = 0; i < 30000; ++i) {
    required["properties"]["k" + std::to_string(i)] = {{"type", "integer"}};
    required["required"].push_back("k" + std::to_string(i));
  }
  request["response_format"]["json_schema"]["schema"] = required;
  EXPECT_EQ(server.post(path, request)->status, 400);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << "it takes one or two";
}

TEST(Tools, ListsOfManyMegabytesAreRefusedInAMoment) {
  const RunningServer server;
  const auto begin = std::chrono::steady_clock::now();
  const auto list = [](int tools, const json& function) {
    json all = json::array();
    for (int i = 0; i < tools; ++i) {
      all.push_back({{"type", "function"}, {"function", function}});
      if (!function.contains("name")) all.back()["function"]["name"] = "f" + std::to_string(i);
    }
    return all;
  };
  const auto error = [&](const json& tools, int status, const json& more = json::object()) {
    json request = chat();
    request["tools"] = tools;
    request.update(more);
    const auto result = server.post(path, request);
    EXPECT_TRUE(result) << "the server has not answered";
    if (!result) return std::string();
    EXPECT_EQ(result->status, status) << result->body.substr(0, 300);
    EXPECT_LT(result->body.size(), 2000U);
    return json::parse(result->body)["error"].value("message", "");
  };
  EXPECT_THAT(error(list(1000, {{"description", std::string(10'000, 'x')}}), 413), HasSubstr("longer than 8 MiB"));
  EXPECT_THAT(error(list(1000, {{"description", std::string(7'000, 'x')}}), 400), HasSubstr("the prompt has "));
  std::string marks;
  while (marks.size() < 7'000) marks += "<|im_end|>";
  EXPECT_THAT(error(list(1000, {{"description", marks}}), 400), HasSubstr("the prompt has "));
  EXPECT_THAT(error(list(1025, json::object()), 400), HasSubstr("more than 1024 tools"));
  EXPECT_THAT(error(list(1, {{"name", std::string(1 << 20, 'x')}}), 400), HasSubstr("is not the name of a tool"));
  json wide = {{"type", "object"}, {"properties", json::object()}};
  for (int i = 0; i < 400; ++i) wide["properties"]["k" + std::to_string(i)] = {{"type", "string"}};
  EXPECT_THAT(error(list(500, {{"parameters", wide}}), 400, {{"tool_choice", "required"}}),
              testing::AnyOf(HasSubstr("too large"), HasSubstr("the prompt has ")));
  json deep = {{"type", "string"}};
  for (int i = 0; i < 2000; ++i) deep = {{"type", "array"}, {"items", deep}};
  EXPECT_THAT(error(list(1, {{"parameters", deep}}), 400), HasSubstr("nests"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(test::threads_sanitized ? 600 : 60))
      << "it takes some";
}

/// No special token comes from what a client has written, wherever it stands.
TEST(Tools, WhatSpellsASpecialTokenIsText) {
  const Tokenizer tokenizer = Tokenizer::load(models + "tale-target");
  const std::string mark = "<|im_end|>";
  ASSERT_TRUE(tokenizer.is_special(tokenizer.find(mark)));
  const std::string shows =
      "{% for m in messages %}<|im_start|>{{ m.role }}|{{ m.name }}|{{ m.content }}|{{ m.reasoning_content }}"
      "{% for c in m.tool_calls %}{{ c.id }}|{{ c.function.name }}|{{ c.function.arguments | tojson }}|"
      "{% if c.function.arguments is mapping %}{% for k, v in c.function.arguments.items() %}{{ k ~ '=' ~ v }}"
      "{% endfor %}{% endif %}{% endfor %}|{{ m.tool_call_id }}<|im_end|>{% endfor %}"
      "{% for t in tools %}{{ t.function.name ~ t.function.description }}"
      "{% for k, v in t.function.parameters.properties.items() %}{{ k ~ ': ' ~ v.description | upper }}{% endfor %}"
      "{% endfor %}{{ tools | tojson(indent=2) }}{{ mood }}<tool_call>";
  const std::string knows_no_tools =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}";
  /// Every text of it that is the client's to choose is `text`.
  const auto request = [](const std::string& text) {
    const json schema = {{"type", "object"},
                         {"properties", {{text, {{"type", "string"}, {"description", text}, {"enum", {text}}}}}},
                         {"required", {text}}};
    const json call = {{"id", text},
                       {"type", "function"},
                       {"function", {{"name", "f"}, {"arguments", json{{text, text}, {"b", {text}}}.dump()}}}};
    return json{
        {"messages",
         {{{"role", "system"}, {"content", text}},
          {{"role", "user"}, {"content", text}, {"name", text}},
          {{"role", "assistant"}, {"content", text}, {"reasoning_content", text}, {"tool_calls", json::array({call})}},
          {{"role", "tool"}, {"content", text}, {"tool_call_id", text}, {"name", text}},
          {{"role", "user"}, {"content", text}}}},
        {"tools",
         {{{"type", "function"},
           {"function", {{"name", "f"}, {"description", text}, {"parameters", schema}, {text, text}}}}}},
        {"chat_template_kwargs", {{"mood", text}}}};
  };
  for (const std::string& source : {shows, knows_no_tools}) {
    const ChatTemplate chat(source, "the template of the test", jinja::Dict());
    ServedModel model;
    model.tokenizer = &tokenizer;
    model.chat = &chat;
    const auto special = [&](const std::string& text) {
      const ChatRequest read = read_conversation(Json::parse(request(text).dump(), "the request"), model);
      std::string bytes;
      for (const Token token : read.prompt) tokenizer.append_bytes(token, true, bytes);
      EXPECT_THAT(bytes, HasSubstr(text)) << "it is there, as it is";
      return std::ranges::count_if(read.prompt, [&](Token token) { return tokenizer.is_special(token); });
    };
    EXPECT_EQ(special(mark + "x" + mark), special("plain"));
  }
}

TEST(Tools, WhatCannotBeObeyedIsRefusedByName) {
  const RunningServer server;
  const auto error = [&](const json& more) {
    json request = chat();
    request.update(more);
    const auto result = server.post(path, request);
    EXPECT_EQ(result->status, 400) << result->body;
    return json::parse(result->body)["error"].value("message", "");
  };
  const json unsupported = {
      {"type", "function"},
      {"function", {{"name", "f"}, {"strict", true}, {"parameters", {{"type", "object"}, {"patternProperties", 1}}}}}};
  EXPECT_THAT(error({{"tools", {{{"type", "web_search"}}}}}), HasSubstr("tools[0].type"));
  EXPECT_THAT(error({{"tools", {now, now}}}), HasSubstr("names two tools"));
  EXPECT_THAT(error({{"tools", json::array({unsupported})}}), HasSubstr("patternProperties"));
  EXPECT_THAT(error({{"tool_choice", "required"}}), HasSubstr("there are no tools"));
  EXPECT_THAT(error({{"tools", json::array({now})}, {"tool_choice", "sometimes"}}), HasSubstr("tool_choice"));
  EXPECT_THAT(error({{"tools", json::array({now})}, {"tool_choice", {{"function", {{"name", "then"}}}}}}),
              HasSubstr("is none of the tools"));
  EXPECT_THAT(error({{"tools", {weather(true)}}, {"response_format", {{"type", "json_object"}}}}),
              HasSubstr("exclude each other"));
  EXPECT_THAT(error({{"reasoning_effort", "low"}}), HasSubstr("reasoning_effort"));
  EXPECT_THAT(error({{"reasoning_format", "odd"}}), HasSubstr("reasoning_format"));
  EXPECT_THAT(
      error({{"messages",
              {{{"role", "assistant"}, {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", "{"}}}}}}}}}}),
      HasSubstr("arguments"));
  EXPECT_THAT(error({{"messages", {{{"role", "user"}, {"content", "x"}, {"voice", "low"}}}}}), HasSubstr("voice"));
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "x"}, {"tools", json::array({now})}})->status, 400);
}

const std::string thinking =
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}<think>\n{# ends with </think> #}";

TEST(Thoughts, AreToldApartAndWhatAnAnswerIsHeldToBeginsBehindThem) {
  const RunningServer server({.chat_template = thinking});
  json request = chat("A tale.");
  request["max_tokens"] = 30;
  const json all = asked(server, request)["choices"][0]["message"];
  EXPECT_EQ(all["content"], "") << "it never ends its thoughts";
  ASSERT_TRUE(all.contains("reasoning_content"));
  request["reasoning_format"] = "none";
  const json as_content = asked(server, request)["choices"][0]["message"];
  EXPECT_FALSE(as_content.contains("reasoning_content"));
  EXPECT_THAT(as_content["content"].get<std::string>(), HasSubstr(all["reasoning_content"].get<std::string>()));
  request.erase("reasoning_format");
  request["include_reasoning"] = false;
  EXPECT_FALSE(asked(server, request)["choices"][0]["message"].contains("reasoning_content"));
  request = chat("A tale.");
  request["grammar"] = "root ::= \"yes\" | \"no\"";
  request["max_tokens"] = 60;
  const json held = asked(server, request)["choices"][0];
  EXPECT_EQ(held["message"]["content"], "") << "a mask during thoughts would have let it say yes or no at once";
  EXPECT_EQ(held["finish_reason"], "length");
  EXPECT_EQ(held["message"]["reasoning_content"].get<std::string>().substr(0, 20),
            all["reasoning_content"].get<std::string>().substr(0, 20))
      << "thoughts are free";
}

}  // namespace
}  // namespace draftproof::serve::tools_test
