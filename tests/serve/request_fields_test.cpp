// SPDX-License-Identifier: MIT
// Every row of the table of request fields, asked of a server.
#include "serve/request_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/serve/running_server.h"

namespace draftproof::serve::request_fields_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* completions = "/v1/completions";
constexpr const char* chats = "/v1/chat/completions";

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

Json with(Json body, std::string_view field, const Json& value) {
  body[std::string(field)] = value;
  return body;
}

const Json asked = {{"prompt", "Once upon a time"}, {"max_tokens", 6}, {"seed", 7}, {"temperature", 1}};

std::string text_of(const Json& body, const char* path = completions) {
  const Json answer = server().answer(path, body);
  EXPECT_TRUE(answer.contains("choices")) << body << answer;
  return answer.contains("choices") ? answer["choices"][0].value("text", answer["choices"][0].dump()) : "";
}

std::string error_of(const Json& body, const char* path = completions) {
  const auto result = server().post(path, body);
  EXPECT_EQ(result->status, 400) << body;
  return result->status == 400 ? Json::parse(result->body)["error"]["message"] : "";
}

TEST(RequestFields, AreNamedOnce) {
  std::set<std::string_view> names;
  for (const ApiField& field : api_fields()) EXPECT_TRUE(names.insert(field.name).second) << field.name;
  EXPECT_GT(names.size(), 150U);
}

/// Every field of a use, with the value that is given for it.
template <class ValueOf>
Json with_all(FieldUse use, const ValueOf& value_of) {
  Json body = asked;
  for (const ApiField& field : api_fields()) {
    if (field.use == use) body[std::string(field.name)] = value_of(field);
  }
  return body;
}

TEST(RequestFields, ThatAreHarmlessTakeAnyValueAndChangeNothing) {
  const std::string plain = text_of(asked);
  for (const Json& value : {Json(5), Json({{"a", true}})}) {
    EXPECT_EQ(text_of(with_all(FieldUse::harmless, [&](const ApiField&) { return value; })), plain);
  }
}

TEST(RequestFields, ThatAreRefusedAreNamedUnlessTheySayNothing) {
  for (const ApiField& field : api_fields()) {
    if (field.use != FieldUse::refused) continue;
    const std::string name = "field " + std::string(field.name) + ": is not supported by this server; ";
    for (const Json& value : {Json("x"), Json(0.25), Json::array({{{"a", 1}}}), Json(!field.off_true)}) {
      EXPECT_THAT(error_of(with(asked, field.name, value)), HasSubstr(name + std::string(field.note))) << value;
    }
  }
  const std::string plain = text_of(asked);
  for (const Json& nothing : {Json(nullptr), Json::array(), Json::object(), Json("")}) {
    EXPECT_EQ(text_of(with_all(FieldUse::refused, [&](const ApiField&) { return nothing; })), plain) << nothing;
  }
  const auto off = [](const ApiField& field, bool last) -> Json {
    if (!field.off.empty()) return last ? field.off.back() : field.off.front();
    if (!field.off_words.empty()) return last ? Json(field.off_words.back()) : Json::array({field.off_words.front()});
    return field.off_true;
  };
  for (const bool last : {false, true}) {
    EXPECT_EQ(text_of(with_all(FieldUse::refused, [&](const ApiField& field) { return off(field, last); })), plain);
  }
}

TEST(RequestFields, ThatAreAliasesAreObeyedUnderTheirName) {
  const Json schema = {{"type", "object"},
                       {"properties", {{"a", {{"type", "boolean"}}}}},
                       {"required", {"a"}},
                       {"additionalProperties", false}};
  const Json of_schema = {{"type", "json_schema"}, {"json_schema", {{"schema", schema}}}};
  const std::map<std::string, std::pair<Json, Json>> values = {
      {"max_tokens", {2, "x"}},   {"repetition_penalty", {1.5, "x"}},
      {"stop", {" a", 5}},        {"grammar", {"root ::= \"ab\"", 5}},
      {"typical_p", {0.2, "x"}},  {"top_n_sigma", {0.1, "x"}},
      {"min_tokens", {200, "x"}}, {"response_format.json_schema.schema", {schema, {{"type", 5}}}}};
  for (const ApiField& field : api_fields()) {
    if (field.use != FieldUse::alias) continue;
    const std::string of(field.note);
    ASSERT_TRUE(values.contains(of)) << "add a value for " << of;
    const auto& [right, wrong] = values.at(of);
    const std::string top = of.substr(0, of.find('.'));
    Json body = asked;
    body.erase("max_tokens");
    if (of == "min_tokens") body["stop_token_ids"] = {259};
    const Json own = top == of ? with(body, of, right) : with(body, top, of_schema);
    EXPECT_EQ(text_of(with(body, field.name, right)), text_of(own)) << field.name;
    EXPECT_NE(text_of(with(body, field.name, right)), text_of(body)) << field.name;
    EXPECT_THAT(error_of(with(body, field.name, wrong)), HasSubstr("field " + std::string(field.name))) << field.name;
    EXPECT_THAT(error_of(with(own, field.name, right)), HasSubstr("say the same; leave one out")) << field.name;
  }
}

TEST(RequestFields, OfStructureAreObeyed) {
  const Json schema = {{"type", "object"},
                       {"properties", {{"a", {{"type", "boolean"}}}}},
                       {"required", {"a"}},
                       {"additionalProperties", false}};
  const auto structured = [&](const Json& structure) { return text_of(with(asked, "structured_outputs", structure)); };
  const std::string right =
      text_of(with(asked, "response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", schema}}}}));
  EXPECT_THAT(right, HasSubstr("{"));
  EXPECT_EQ(structured({{"json", schema}}), right);
  EXPECT_EQ(text_of(with(asked, "response_format", {{"type", "json_object"}, {"schema", schema}})), right);
  EXPECT_EQ(text_of(with(asked, "guided_json", schema.dump())), right);
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  EXPECT_THAT(error_of(with(asked, "guided_json", deep)), HasSubstr("nests deeper than 256 levels"));
  EXPECT_THAT(error_of(with(asked, "guided_json", "{")), HasSubstr("field guided_json"));
  EXPECT_EQ(structured({{"choice", {"\"\\"}}}), "\"\\");
  EXPECT_EQ(structured({{"grammar", "root ::= \"ab\""}, {"regex", nullptr}}), "ab");
  EXPECT_THAT(error_of(with(asked, "structured_outputs", {{"regex", "[0-9]+"}})),
              HasSubstr("field structured_outputs.regex: is not supported"));
  EXPECT_THAT(error_of(with(asked, "structured_outputs", {{"grammar", "root ::= \"a\""}, {"choice", {"a"}}})),
              HasSubstr("is one of several"));
  EXPECT_THAT(error_of(with(asked, "structured_outputs", {{"choice", Json::array()}})), HasSubstr("is empty"));
}

/// The text, which is the same without speculation.
std::string proven_text_of(const Json& body) {
  const std::string text = text_of(body);
  EXPECT_EQ(text_of(with(body, "speculative", false)), text) << body;
  return text;
}

TEST(RequestFields, ThatNameSamplersAreObeyed) {
  const Json body = with(asked, "max_tokens", 40);
  const std::string plain = text_of(body);
  for (const auto& [field, value] : std::map<std::string, double>{{"typical_p", 0.2},
                                                                  {"top_n_sigma", 0.1},
                                                                  {"dynatemp_range", 0.9},
                                                                  {"xtc_probability", 1},
                                                                  {"adaptive_target", 0.2}}) {
    EXPECT_NE(proven_text_of(with(body, field, value)), plain) << field;
  }
  const Json surprising = with(with(body, "mirostat", 2), "mirostat_tau", 1);
  EXPECT_NE(proven_text_of(surprising), plain);
  EXPECT_EQ(text_of(with(surprising, "top_k", 1)), text_of(surprising)) << "other samplers do not apply";
  EXPECT_THAT(error_of(with(body, "mirostat", 1)), HasSubstr("field mirostat: must be 0 or 2"));
  const Json repeating = {
      {"prompt", "Once upon a time"}, {"max_tokens", 80}, {"temperature", 0}, {"dry_allowed_length", 1}};
  const Json dry = with(repeating, "dry_multiplier", 50);
  const std::string dried = proven_text_of(dry);
  EXPECT_NE(dried, text_of(repeating));
  EXPECT_EQ(text_of(with(dry, "dry_penalty_last_n", 0)), text_of(repeating));
  EXPECT_EQ(text_of(with(dry, "dry_sequence_breakers", {"\n", ":", "\"", "*"})), dried);
  EXPECT_NE(text_of(with(dry, "dry_sequence_breakers", {"a", "e", "o"})), dried);
  EXPECT_THAT(error_of(with(dry, "dry_sequence_breakers", {"no such text"})),
              HasSubstr("field dry_sequence_breakers: is not right: no token contains"));
}

TEST(RequestFields, ThatOrderSamplersAreObeyed) {
  const Json hot = with(with(with(asked, "max_tokens", 40), "temperature", 2), "top_p", 0.5);
  const std::string cool = proven_text_of(with(hot, "samplers", "llama.cpp"));
  EXPECT_NE(cool, text_of(hot));
  EXPECT_EQ(text_of(with(hot, "samplers", "transformers")), text_of(hot));
  EXPECT_EQ(text_of(with(hot, "samplers", Json::array())), text_of(hot));
  EXPECT_EQ(text_of(with(hot, "samplers", {"top_k", "top_p", "temperature"})), cool);
  EXPECT_EQ(text_of(with(hot, "samplers", "top_k;top_p;temperature")), cool);
  EXPECT_EQ(text_of(with(hot, "sampler_order", {6, 0, 1, 3, 4, 2, 5})), cool);
  const Json best = with(hot, "top_k", 1);
  EXPECT_EQ(text_of(with(best, "samplers", {"top_k"})), text_of(with(hot, "temperature", 0)));
  EXPECT_EQ(text_of(with(best, "samplers", {"top_p", "temperature"})), cool) << "what is not listed does not apply";
  EXPECT_THAT(error_of(with(hot, "samplers", {"top_a"})),
              HasSubstr("field samplers: is not right: there is no sampler"));
  EXPECT_THAT(error_of(with(hot, "sampler_order", {0, 0})), HasSubstr("field sampler_order: is not right: top_k is"));
  EXPECT_THAT(error_of(with(hot, "sampler_order", {7})), HasSubstr("field sampler_order"));
  EXPECT_THAT(error_of(with(with(hot, "samplers", "llama.cpp"), "sampler_order", {0})), HasSubstr("say the same"));
}

TEST(RequestFields, ThatBanWordsAreObeyed) {
  const Json body = with(asked, "max_tokens", 40);
  const std::string plain = text_of(body);
  const std::string word = plain.substr(1, plain.find(' ', 1) - 1);
  const std::string other = proven_text_of(with(body, "bad_words", {word}));
  EXPECT_EQ((other + " ").find(" " + word + " "), std::string::npos) << other;
  EXPECT_NE(other, plain);
  EXPECT_EQ(text_of(with(body, "bad_words", Json::array())), plain);
  EXPECT_THAT(error_of(with(body, "bad_words", {""})), HasSubstr("field bad_words"));
}

TEST(RequestFields, ThatNameStopTokensEndTheTextAtThem) {
  const Json answer = server().answer(completions, with(with(asked, "return_tokens", true), "max_tokens", 20));
  std::vector<Token> tokens;
  for (const Json& round : answer["choices"][0]["rounds"]) {
    for (const Json& token : round["tokens"]) tokens.push_back(token["id"]);
  }
  const Json body = with(with(asked, "max_tokens", 20), "stop_token_ids", {tokens[5]});
  const Json stopped = server().answer(completions, body);
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");
  EXPECT_LE(stopped["usage"]["completion_tokens"], 6);
}

TEST(RequestFields, OfTheOtherPathAreNotSwallowed) {
  const Json chat = {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"max_tokens", 4}};
  EXPECT_THAT(error_of(with(chat, "prompt", "x"), chats), HasSubstr("field prompt"));
  EXPECT_THAT(error_of(with(asked, "messages", chat["messages"])), HasSubstr("field messages"));
  EXPECT_THAT(error_of(with(asked, "top_logprobs", 3)), HasSubstr("field top_logprobs"));
  EXPECT_THAT(error_of(with(chat, "temprature", 0), chats), HasSubstr("field temprature: is not known"));
}

}  // namespace
}  // namespace draftproof::serve::request_fields_test
