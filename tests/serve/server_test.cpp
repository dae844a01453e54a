// SPDX-License-Identifier: MIT
// What an answer is, and what it does not depend on. The server runs in this process, and is asked over HTTP.
#include "serve/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "oracle/plain/plain.h"
#include "serve/openai_writer.h"
#include "tests/serve/running_server.h"

namespace draftproof::serve::server_test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

constexpr const char* completions = "/v1/completions";
constexpr const char* chats = "/v1/chat/completions";

std::vector<Token> tokens_of(const Json& rounds) {
  std::vector<Token> tokens;
  for (const Json& round : rounds) {
    for (const Json& token : round["tokens"]) tokens.push_back(token["id"]);
  }
  return tokens;
}

/// Requests that differ in everything that decides a text.
std::vector<Json> requests() {
  return {
      {{"prompt", "Once upon a time"}, {"temperature", 0}, {"seed", 1}},
      {{"prompt", "Once upon a time"}, {"temperature", 1}, {"seed", 2}, {"n", 3}},
      {{"prompt", "The baker of Crow Hill"}, {"temperature", 0.8}, {"top_p", 0.9}, {"seed", 3}, {"top_k", 30}},
      {{"prompt", "A recipe"}, {"temperature", 1.2}, {"min_p", 0.05}, {"seed", 4}, {"frequency_penalty", 0.5}},
      {{"prompt", "Once upon"}, {"temperature", 1}, {"seed", 5}, {"repetition_penalty", 1.3}, {"max_tokens", 60}},
      {{"prompt", "Once upon a time"}, {"temperature", 1}, {"seed", 6}, {"stop", {" the", "xyz"}}},
      {{"prompt", {5, 6, 7, 8}}, {"temperature", 1}, {"seed", 7}, {"logit_bias", {{"9", 5}, {"11", -100}}}},
      {{"prompt", "Data:"}, {"temperature", 1}, {"seed", 8}, {"response_format", {{"type", "json_object"}}}},
  };
}

Json told(Json request, bool speculative) {
  request["speculative"] = speculative;
  request["return_tokens"] = true;
  request["logprobs"] = 2;
  return request;
}

/// The parts of an answer that a client may rely on.
Json content(const Json& answer) {
  Json content = Json::array();
  for (const Json& choice : answer["choices"]) {
    content.push_back({{"text", choice["text"]},
                       {"finish", choice["finish_reason"]},
                       {"logprobs", choice["logprobs"]},
                       {"tokens", tokens_of(choice["rounds"])}});
  }
  return content;
}

TEST(Server, AnAnswerIsPlainDecodingOfTheRequestWhoeverDrafts) {
  ModelFiles files(models + "tale-target");
  Engine engine(files, LoadOptions(kernels_by_name("")));
  const Tokenizer tokenizer = Tokenizer::load(files.target());
  for (const bool speculative : {false, true}) {
    const Json request = {
        {"prompt", "Once upon a time"}, {"temperature", 1}, {"seed", 11}, {"n", 2}, {"max_tokens", 30}};
    const Json answer = server().answer(completions, told(request, speculative));
    for (int choice = 0; choice < 2; ++choice) {
      Request same;
      same.prompt = tokenizer.encode("Once upon a time");
      same.sampling.temperature = 1;
      same.stops = read_stop_tokens(files.target());
      same.max_new_tokens = 30;
      same.sequence = choice;
      PhiloxSource random(11);
      const PlainRun plain = draftproof::plain(engine.target(), same, random);
      const Json& found = answer["choices"][static_cast<std::size_t>(choice)];
      EXPECT_EQ(tokens_of(found["rounds"]), plain.output);
      EXPECT_EQ(found["logprobs"]["token_logprobs"].get<std::vector<double>>(), plain.logprobs);
      EXPECT_EQ(found["finish_reason"], name_of(plain.finish));
    }
  }
}

TEST(Server, AnAnswerIsTheSameAloneAndBesideOthersColdAndWarmDraftedOrNot) {
  const std::vector<Json> list = requests();
  std::vector<Json> alone;
  for (const Json& request : list) alone.push_back(content(server().answer(completions, told(request, false))));
  for (const bool speculative : {true, false, true}) {
    std::vector<std::future<Json>> together;
    for (const Json& request : list) {
      together.push_back(std::async(std::launch::async, [&request, speculative] {
        return content(server().answer(completions, told(request, speculative)));
      }));
    }
    for (std::size_t i = 0; i < list.size(); ++i) EXPECT_EQ(together[i].get(), alone[i]) << list[i];
  }
  std::vector<std::future<Json>> together;  // some with a prediction, before the draft that all share
  for (std::size_t i = 0; i < list.size(); ++i) {
    Json request = told(list[i], true);
    const Json like = i == 0 ? Json("there was a king") : Json(std::vector<Token>{5, 6, 7, 8, 9, 10});
    if (i % 2 == 0) request["prediction"] = {{"type", "content"}, {"content", like}};
    together.push_back(std::async(std::launch::async, [request] { return server().answer(completions, request); }));
  }
  for (std::size_t i = 0; i < list.size(); ++i) EXPECT_EQ(content(together[i].get()), alone[i]) << list[i];
  EXPECT_GT(server().metric("draftproof_passes_shared_total"), 20);
  EXPECT_GT(server().metric("draftproof_prompt_tokens_reused_total"), 0);
}

TEST(Server, APredictionChangesNoAnswerAndItsTokensAreCountedApart) {
  for (Json request : requests()) {
    request = told(request, true);
    const Json without = server().answer(completions, request);
    const Json& none = without["usage"]["completion_tokens_details"];
    EXPECT_EQ(none["accepted_prediction_tokens"], 0);
    EXPECT_EQ(none["rejected_prediction_tokens"], 0);
    std::string expected = without["choices"][0]["text"];
    std::erase_if(expected, [](char c) { return static_cast<unsigned char>(c) > 127; });
    const Json first = {{"type", "text"}, {"text", expected.substr(0, expected.size() / 3)}};
    const Json last = {{"type", "text"}, {"text", expected.substr(expected.size() / 2)}};
    for (const Json& predicted : {Json(expected), Json("another text, which the answer is not like"),
                                  Json(tokens_of(without["choices"][0]["rounds"])), Json::array({first, last})}) {
      request["prediction"] = {{"type", "content"}, {"content", predicted}};
      const Json with = server().answer(completions, request);
      ASSERT_EQ(content(with), content(without)) << request;
      const Json& details = with["usage"]["completion_tokens_details"];
      const int accepted = details["accepted_prediction_tokens"];
      EXPECT_LE(accepted, with["usage"]["accepted_tokens"]);
      EXPECT_LE(accepted + details["rejected_prediction_tokens"].get<int>(), with["usage"]["drafted_tokens"]);
    }
  }
  Json greedy = {{"prompt", "Once upon a time"}, {"temperature", 0}, {"max_tokens", 40}, {"return_tokens", true}};
  const Json without = server().answer(completions, greedy);
  greedy["prediction"] = {{"type", "content"}, {"content", tokens_of(without["choices"][0]["rounds"])}};
  const Json with = server().answer(completions, greedy);
  EXPECT_GE(with["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 36) << with["usage"];
  EXPECT_LE(with["choices"][0]["rounds"].size(), 4U);
  greedy["speculative"] = false;
  EXPECT_EQ(server().answer(completions, greedy)["usage"]["drafted_tokens"], 0);
  EXPECT_THAT(server().client().Get("/metrics")->body, HasSubstr("{drafter=\"prediction\",depth=\"0\"}"));
}

TEST(Server, EarlierAnswersOfAKeyDraftItsLaterOnesOfNoOtherKeyAndChangeNone) {
  for (const std::string& draft : {std::string("none"), RunOptions().draft}) {
    const RunningServer pooled({.draft = draft, .api_keys = {"first", "second"}, .pool_tokens = 4096});
    const auto answered = [&](const Json& request, const char* key) {
      httplib::Client client = pooled.client();
      client.set_bearer_token_auth(key);
      const auto result = client.Post(completions, request.dump(), "application/json");
      return result ? Json::parse(result->body) : Json();
    };
    const auto rounds = [](const Json& answer) { return answer["choices"][0]["rounds"].size(); };
    const Json request = {{"prompt", "Once upon a time"}, {"temperature", 0}, {"return_tokens", true}, {"logprobs", 2}};
    const Json plain = server().answer(completions, told(request, false));
    const Json first = answered(request, "first");
    const Json again = answered(request, "first");
    EXPECT_EQ(content(first), content(plain));
    EXPECT_EQ(content(again), content(plain));
    EXPECT_LE(rounds(again), 6U) << "40 tokens, 4 in the first round, then 16";
    const Json other = answered(request, "second");
    EXPECT_EQ(content(other), content(plain));
    EXPECT_EQ(rounds(other), rounds(first)) << "another key is told nothing by the number of rounds";
    for (const Json& one : requests()) {
      EXPECT_EQ(content(answered(told(one, true), "first")), content(server().answer(completions, told(one, false))));
      EXPECT_EQ(content(answered(told(one, true), "first")), content(server().answer(completions, told(one, false))));
    }
  }
}

/// How many tokens of the prompt were reused for a second request, of another key or salt than the first.
int reused(bool share, const char* first_key, const char* second_key, const Json& first_salt, const Json& second_salt) {
  const RunningServer server({.draft = "none", .api_keys = {"one", "two"}, .share_prefixes = share});
  const auto answered = [&](const char* key, const Json& salt) {
    httplib::Client client = server.client();
    client.set_bearer_token_auth(key);
    const Json request = {{"prompt", "Once upon a time there was a fox"},
                          {"max_tokens", 2},
                          {"seed", 1},
                          {"logprobs", 1},
                          {"return_tokens", true},
                          {"cache_salt", salt}};
    return Json::parse(client.Post(completions, request.dump(), "application/json")->body);
  };
  const Json before = answered(first_key, first_salt);
  const Json after = answered(second_key, second_salt);
  EXPECT_EQ(content(after), content(before)) << "nothing but the time differs";
  return after["usage"]["prompt_tokens_details"]["cached_tokens"];
}

TEST(Server, PromptsOfOneKeyAndSaltAreReusedForNoOther) {
  const Json none;
  EXPECT_GT(reused(false, "one", "one", none, none), 0);
  EXPECT_GT(reused(false, "two", "two", "a", "a"), 0);
  EXPECT_EQ(reused(false, "one", "two", none, none), 0);
  EXPECT_EQ(reused(false, "two", "one", none, none), 0);
  EXPECT_EQ(reused(false, "one", "one", "a", "b"), 0);
  EXPECT_EQ(reused(false, "one", "one", none, "a"), 0);
  EXPECT_GT(reused(true, "one", "two", none, none), 0);
  EXPECT_EQ(reused(true, "one", "two", "a", none), 0);
}

TEST(Server, ACacheSaltIsATextOfLimitedLength) {
  for (const Json& salt : {Json(""), Json(5), Json(std::string(257, 'x'))}) {
    const auto result = server().post(completions, {{"prompt", "a"}, {"cache_salt", salt}});
    EXPECT_EQ(result->status, 400) << salt;
    EXPECT_THAT(result->body, HasSubstr("cache_salt"));
  }
}

TEST(Server, ATopPOfZeroIsGreedy) {
  const Json zero = {{"prompt", "Once upon a time"}, {"temperature", 1}, {"seed", 5}, {"top_p", 0}};
  const Json greedy = {{"prompt", "Once upon a time"}, {"temperature", 0}};
  EXPECT_EQ(content(server().answer(completions, told(zero, true))),
            content(server().answer(completions, told(greedy, true))));
}

TEST(Server, AStreamIsTheWholeAnswerInParts) {
  for (Json request : requests()) {
    request = told(request, true);
    request["stream_options"] = {{"include_usage", true}};
    const Json whole = server().answer(completions, request);
    const std::vector<Json> chunks = server().stream(completions, request);
    ASSERT_GE(chunks.size(), 2);
    std::vector<std::string> texts(whole["choices"].size());
    std::vector<Json> finishes(texts.size());
    std::vector<std::vector<Token>> tokens(texts.size());
    for (const Json& chunk : chunks) {
      for (const Json& choice : chunk["choices"]) {
        const std::size_t index = choice["index"];
        texts[index] += choice["text"].get<std::string>();
        if (!choice["finish_reason"].is_null()) finishes[index] = choice["finish_reason"];
        if (!chunk.contains("round")) continue;
        for (const Token token : tokens_of(Json::array({chunk["round"]}))) tokens[index].push_back(token);
      }
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(texts[i], whole["choices"][i]["text"].get<std::string>());
      EXPECT_EQ(finishes[i], whole["choices"][i]["finish_reason"]);
      EXPECT_EQ(tokens[i], tokens_of(whole["choices"][i]["rounds"]));
    }
    EXPECT_EQ(chunks.back()["choices"], Json::array());
    for (const char* const count : {"prompt_tokens", "completion_tokens", "total_tokens"}) {
      EXPECT_EQ(chunks.back()["usage"][count], whole["usage"][count]);
    }
  }
}

TEST(Server, APromptHasTheLogprobsThatItsTokensHadAsAnAnswer) {
  for (const bool speculative : {true, false}) {
    Json request =
        told({{"prompt", "Once upon a time"}, {"temperature", 1}, {"seed", 5}, {"max_tokens", 40}}, speculative);
    const Json answer = server().answer(completions, request)["choices"][0];
    const std::vector<Token> output = tokens_of(answer["rounds"]);
    std::vector<Token> text =
        server().answer("/tokenize", {{"content", "Once upon a time"}, {"add_special", true}})["tokens"];
    const std::size_t begin = text.size();
    text.insert(text.end(), output.begin(), output.end());
    request["prompt"] = text;
    request["max_tokens"] = 0;
    request["echo"] = true;
    request["prompt_logprobs"] = 2;
    const Json read = server().answer(completions, request);
    EXPECT_EQ(read["usage"]["completion_tokens"], 0);
    const Json& choice = read["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "length");
    const Json& told = choice["logprobs"];
    EXPECT_EQ(told["token_logprobs"].size(), text.size());
    EXPECT_TRUE(told["token_logprobs"][0].is_null() && told["top_logprobs"][0].is_null());
    std::string echoed;
    for (std::size_t i = 0; i < text.size(); ++i) {
      EXPECT_EQ(told["text_offset"][i], echoed.size());
      echoed += told["tokens"][i].get<std::string>();
      if (i > 0) {
        const Json& place = choice["prompt_logprobs"][i];
        EXPECT_EQ(place[std::to_string(text[i])]["logprob"], told["token_logprobs"][i]);
        EXPECT_GE(place.size(), 2);
      }
      if (i < begin) continue;
      EXPECT_EQ(told["token_logprobs"][i], answer["logprobs"]["token_logprobs"][i - begin]) << i;
      EXPECT_EQ(told["top_logprobs"][i], answer["logprobs"]["top_logprobs"][i - begin]) << i;
    }
    EXPECT_EQ(choice["text"], echoed);

    request["max_tokens"] = 5;  // its own tokens come behind those of the prompt, streamed or not
    const Json whole = server().answer(completions, request)["choices"][0];
    EXPECT_EQ(whole["text"].get<std::string>().substr(0, echoed.size()), echoed);
    EXPECT_EQ(whole["logprobs"]["token_logprobs"].size(), text.size() + tokens_of(whole["rounds"]).size());
    std::string streamed;
    Json logprobs = Json::array();
    for (const Json& chunk : server().stream(completions, request)) {
      streamed += chunk["choices"][0]["text"];
      const Json& told_now = chunk["choices"][0]["logprobs"];
      for (const Json& one : told_now.is_null() ? Json::array() : told_now["token_logprobs"]) {
        logprobs.push_back(one);
      }
    }
    EXPECT_EQ(streamed, whole["text"].get<std::string>());
    EXPECT_EQ(logprobs, whole["logprobs"]["token_logprobs"]);
  }
}

TEST(Server, ACompletionRepeatsItsPromptAsItCame) {
  const Json request = {
      {"prompt", {"Once upon", "A recipe for"}}, {"echo", true}, {"seed", 3}, {"n", 2}, {"max_tokens", 4}};
  const Json with = server().answer(completions, request);
  Json silent = request;
  silent.erase("echo");
  const Json without = server().answer(completions, silent);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string prompt = request["prompt"][i / 2];
    EXPECT_EQ(with["choices"][i]["text"], prompt + without["choices"][i]["text"].get<std::string>());
  }
}

TEST(Server, APromptSpellsSpecialTokensWhereItIsAskedTo) {
  const auto prompt_tokens = [](bool parse) {
    const Json body = {{"prompt", "a<|im_end|>"}, {"parse_special", parse}, {"max_tokens", 0}};
    return server().answer(completions, body)["usage"]["prompt_tokens"].get<int>();
  };
  EXPECT_LT(prompt_tokens(true), prompt_tokens(false));
}

TEST(Server, AModelWithoutTextsEchoesTheLogprobsOfItsPrompt) {
  ServedModel model;
  model.name = "m";
  model.vocabulary = 10;
  model.context = 100;
  const CompletionRequest request =
      read_completion(R"({"prompt": [1, 2, 3], "echo": true, "logprobs": 0, "max_tokens": 0})", model, {});
  OpenAiWriter writer(request, model, "x");
  writer.take({0, std::vector<PromptLogprob>{{-1, 1}, {-2, 3}}, {}, {}});
  writer.take({0, {}, {}, StreamEnd{.finish = Finish::length, .error = {}}});
  const Json logprobs = Json::parse(writer.whole())["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["token_logprobs"], Json::parse("[null, -1.0, -2.0]"));
  EXPECT_EQ(logprobs["tokens"][2], "token_id:3");
}

TEST(Server, TheTokensOfAnEchoBeginWhereItsTextDoes) {
  const Json ids = {{"prompt", {200, 201, 130, 40}}, {"max_tokens", 1}, {"echo", true}, {"logprobs", 0}};  // no UTF-8
  EXPECT_EQ(server().answer(completions, ids)["choices"][0]["logprobs"]["text_offset"][0], 0);
}

TEST(Server, AChatTellsTheLogprobsOfItsPrompt) {
  const Json request = {
      {"messages", {{{"role", "user"}, {"content", "Tell me a tale"}}}}, {"prompt_logprobs", 1}, {"max_tokens", 0}};
  const Json answer = server().answer(chats, request);
  EXPECT_EQ(answer["prompt_logprobs"].size(), answer["usage"]["prompt_tokens"]);
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "");
}

TEST(Server, AChatHasRoleContentAndUsageAndItsNextTurnReadsNothingAgain) {
  Json request = {{"messages", {{{"role", "user"}, {"content", "Tell me a tale"}}}},
                  {"seed", 3},
                  {"logprobs", true},
                  {"top_logprobs", 2}};
  const Json first = server().answer(chats, request);
  const Json& choice = first["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["logprobs"]["content"].size(), first["usage"]["completion_tokens"]);
  EXPECT_EQ(choice["logprobs"]["content"][0]["top_logprobs"].size(), 2);
  request["messages"].push_back(choice["message"]);
  request["messages"].push_back({{"role", "user"}, {"content", {{{"type", "text"}, {"text", "And then?"}}}}});
  const Json second = server().answer(chats, request);
  EXPECT_GE(second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(),
            first["usage"]["prompt_tokens"].get<int>());
  std::string streamed;
  for (const Json& chunk : server().stream(chats, request)) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    streamed += chunk["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(streamed, second["choices"][0]["message"]["content"].get<std::string>());
}

TEST(Server, AnAnswerOfASchemaSatisfiesItAndForcedTokensAreDrafted) {
  const Json schema = {{"type", "object"},
                       {"properties",
                        {{"name", {{"type", "string"}, {"maxLength", 12}}},
                         {"age", {{"type", "integer"}, {"minimum", 1}, {"maximum", 120}}}}},
                       {"required", {"name", "age"}}};
  for (int seed = 0; seed < 8; ++seed) {
    const Json answer = server().answer(
        chats, {{"messages", {{{"role", "user"}, {"content", "Who?"}}}},
                {"seed", seed},
                {"max_tokens", 100},
                {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}}}});
    const Json value = Json::parse(answer["choices"][0]["message"]["content"].get<std::string>());
    EXPECT_TRUE(value["name"].is_string());
    EXPECT_TRUE(value["age"] >= 1 && value["age"] <= 120) << value;
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  }
  const Json yes = server().answer(completions, {{"prompt", "Is it?"}, {"grammar", "root ::= \" yes\" | \" no\""}});
  EXPECT_THAT(yes["choices"][0]["text"].get<std::string>(), testing::AnyOf(" yes", " no"));
}

TEST(Server, AnAnswerThatMayEndOrGoOnIsTheSameDraftedOrNot) {
  const Json schema = {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", {{"type", "number"}}}}}};
  for (int seed = 0; seed < 12; ++seed) {
    const Json request = {
        {"prompt", "Once upon a time"}, {"max_tokens", 24}, {"seed", seed}, {"response_format", schema}};
    const Json plain = server().answer(completions, told(request, false));
    const Json drafted = server().answer(completions, told(request, true));
    ASSERT_TRUE(plain.contains("choices") && drafted.contains("choices")) << plain << drafted;
    EXPECT_EQ(content(drafted), content(plain)) << seed;
  }
}

TEST(Server, ADraftThatForeseesWhereAGrammarLetsATextEndChangesNoAnswer) {
  for (const char* grammar : {"root ::= \"no\" \"!\"*", "root ::= \"a\"?", "root ::= [0-9]+"}) {
    for (const double temperature : {0.0, 1.0}) {
      Json body = {{"prompt", "Once upon a time there lived in Crow Hill a gardener named David"},
                   {"max_tokens", 20},
                   {"temperature", temperature},
                   {"seed", 3},
                   {"grammar", grammar}};
      const Json drafted = server().answer(completions, body);
      body["speculative"] = false;
      const Json plain = server().answer(completions, body);
      ASSERT_TRUE(drafted.contains("choices")) << drafted;
      EXPECT_EQ(drafted["choices"], plain["choices"]) << grammar;
    }
  }
}

/// A JSON schema, some of whose values may always go on.
Json random_schema(std::mt19937& random, int depth) {
  const auto below = [&](unsigned bound) { return static_cast<unsigned>(random()) % bound; };
  switch (below(depth > 0 ? 9 : 6)) {
    case 0: return {{"type", "number"}};
    case 1: return {{"type", "integer"}};
    case 2: return {{"type", Json::array({"null", "number"})}};
    case 3: return {{"type", "string"}, {"maxLength", 1 + below(12)}};
    case 4: return {{"type", "boolean"}};
    case 5: return {{"enum", Json::array({"a", "ab", 1, 12, nullptr})}};
    case 6: return {{"type", "array"}, {"items", random_schema(random, depth - 1)}, {"maxItems", 1 + below(4)}};
    case 7: return {{"anyOf", Json::array({random_schema(random, depth - 1), random_schema(random, depth - 1)})}};
    default: {
      Json schema = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array({"a"})}};
      for (const char* name : {"a", "b", "c"}) {
        if (name[0] == 'a' || below(2) == 0) schema["properties"][name] = random_schema(random, depth - 1);
      }
      return schema;
    }
  }
}

TEST(ServerSlow, AnswersOf700RandomSchemasAreThoseOfPlainDecoding) {
  std::mt19937 random(7);
  int ended = 0;
  for (int number = 0; number < 700; ++number) {
    const Json schema = random_schema(random, 2);
    Json body = {{"prompt", number % 2 == 0 ? "The year was" : "Tell me"},
                 {"max_tokens", 24},
                 {"temperature", number % 3 == 0 ? 0.0 : 1.0},
                 {"seed", number},
                 {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}}}};
    const Json drafted = server().answer(completions, body);
    body["speculative"] = false;
    const Json plain = server().answer(completions, body);
    ASSERT_TRUE(plain.contains("choices")) << schema << plain;
    ASSERT_TRUE(drafted.contains("choices")) << schema << drafted;
    EXPECT_EQ(drafted["choices"], plain["choices"]) << schema;
    ended += plain["choices"][0]["finish_reason"] == "stop";
  }
  EXPECT_GT(ended, 350);
}

TEST(Server, WhatIsWrongIsToldByOpenAisErrorObject) {
  const Json good = {{"prompt", "Once"}, {"max_tokens", 2}};
  const auto with = [&](const char* field, const Json& value) {
    Json body = good;
    body[field] = value;
    return body;
  };
  EXPECT_EQ(server().post(completions, with("user", {{"x", 1}}))->status, 200);
  const std::vector<std::pair<Json, std::string>> rows = {
      {with("temperature", "hot"), "field temperature: must be a number"},
      {with("temperature", -1), "field temperature: lies outside"},
      {with("repetition_penalty", 0), "field repetition_penalty: must be above 0; 1 is off"},
      {with("max_tokens", -1), "field max_tokens"},
      {with("max_tokens", 1.5), "field max_tokens"},
      {with("n", 1000), "field n"},
      {with("stop", 3), "field stop"},
      {with("stop", Json::array({1})), "field stop[0]"},
      {with("stream", "yes"), "field stream: must be"},
      {with("seed", "x"), "field seed"},
      {with("logprobs", 100), "field logprobs"},
      {with("logit_bias", Json::array()), "field logit_bias"},
      {with("logit_bias", {{"x", 1}}), "field logit_bias.x"},
      {with("logit_bias", {{"999999", 1}}), "field logit_bias.999999"},
      {with("response_format", {{"type", "xml"}}), "field response_format.type"},
      {with("response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", {{"pattern", "(?=a)"}}}}}}),
       "schema.pattern: has lookaround"},
      {with("grammar", "root ::= x"), "names the rule 'x', which does not exist"},
      {with("audio", "x"), "field audio: is not supported"},
      {with("thing", 5), "field thing: is not known to this server"},
      {with("prediction", "a text"), "field prediction"},
      {with("prediction", {{"type", "tokens"}, {"content", "a"}}), "field prediction.type: is not content"},
      {with("prediction", {{"type", "content"}, {"content", {1, 1000000}}}), "field prediction.content[1]"},
      {with("prediction", {{"type", "content"}, {"content", Json::array({{{"type", "image"}}})}}),
       "field prediction.content[0]: is not text"},
      {with("prompt", Json::array({1, 2, 1000000})), "field prompt[2]"},
      {with("prompt", Json::array()), "the prompt is empty"},
      {with("prompt", std::vector<int>(5000, 1)), "the context of the model has 1024"},
      {with("max_tokens", 5000), "positions"},
      {{{"prompt", std::vector<std::vector<int>>(16, std::vector<int>(1000, 1))}, {"n", 16}, {"prompt_logprobs", 20}},
       "the logprobs of the prompts would be those of more than 262144"},
      {Json::object(), "prompt"},
      {Json::array(), "is not a JSON object"},
  };
  for (const auto& [body, what] : rows) {
    const auto result = server().post(completions, body);
    ASSERT_TRUE(result) << body;
    EXPECT_EQ(result->status, 400) << body.dump().substr(0, 100);
    const Json error = Json::parse(result->body)["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(what));
  }
  const auto raw = [&](const std::string& body) {
    const auto result = server().client().Post(completions, body, "application/json");
    return result ? result->status : 0;
  };
  EXPECT_EQ(raw("{"), 400);
  EXPECT_EQ(raw("\xFF"), 400);
  EXPECT_EQ(raw(R"({"prompt":"a","prompt":"b"})"), 400);
  EXPECT_EQ(raw(std::string(100000, '[')), 400);
  EXPECT_EQ(raw(std::string(9 << 20, ' ')), 413);
  EXPECT_EQ(server().client().Get("/nothing")->status, 404);
  EXPECT_THAT(server().client().Get("/nothing")->body, HasSubstr("there is no such path"));
  const std::vector<std::pair<Json, std::string>> chat_rows = {
      {{{"messages", "hi"}}, "field messages"},
      {{{"messages", Json::array()}}, "is empty"},
      {{{"messages", {{{"role", "king"}, {"content", "x"}}}}}, "field messages[0].role"},
      {{{"messages", {{{"role", "user"}, {"content", 5}}}}}, "field messages[0].content"},
      {{{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}}, "is not text"},
      {{{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"tools", {{{"type", "function"}}}}}, "field tools"},
      {{{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"top_logprobs", 3}}, "needs logprobs"},
  };
  for (const auto& [body, what] : chat_rows) {
    const auto result = server().post(chats, body);
    EXPECT_EQ(result->status, 400) << body;
    EXPECT_THAT(result->body, HasSubstr(what));
  }
}

TEST(Server, TokenizesAndDetokenizes) {
  const Json tokens = server().answer("/tokenize", {{"content", "Once upon a time"}})["tokens"];
  EXPECT_GT(tokens.size(), 2);
  EXPECT_EQ(server().answer("/detokenize", {{"tokens", tokens}})["content"], "Once upon a time");
  EXPECT_EQ(server().post("/detokenize", {{"tokens", {-1}}})->status, 400);
}

TEST(Server, ModelsHealthMetricsAndThePageAreThere) {
  const auto get = [](const std::string& path) { return server().client().Get(path); };
  EXPECT_EQ(Json::parse(get("/v1/models")->body)["data"][0]["id"], "tale");
  EXPECT_EQ(get("/health")->status, 200);
  EXPECT_THAT(get("/")->body, HasSubstr("<title>"));
  EXPECT_THAT(get("/metrics")->body, HasSubstr("# TYPE draftproof_token_seconds histogram"));
}

TEST(Server, OneModelIsToldByItsName) {
  const auto found = server().client().Get("/v1/models/tale");
  EXPECT_EQ(found->status, 200);
  EXPECT_EQ(Json::parse(found->body), Json::parse(server().client().Get("/v1/models")->body)["data"][0]);
  const auto other = server().client().Get("/v1/models/other");
  EXPECT_EQ(other->status, 404);
  EXPECT_THAT(other->body, HasSubstr("there is no model other; this server has tale"));
}

/// Asks with headers as a browser sends them.
httplib::Result ask(const RunningServer& running, const httplib::Headers& headers) {
  return running.client().Post(completions, headers, R"({"prompt":"Once","max_tokens":1})", "text/plain");
}

TEST(Server, PagesOfOtherSitesMayAskNothing) {
  const RunningServer plain({.draft = "none"});
  const std::string own = "127.0.0.1:" + std::to_string(plain.port());
  EXPECT_EQ(ask(plain, {})->status, 200);
  EXPECT_EQ(ask(plain, {{"Origin", "http://" + own}})->status, 200);
  for (const char* const origin : {"https://evil.example", "null", "http://127.0.0.1:1"}) {
    const auto refused = ask(plain, {{"Origin", origin}});
    EXPECT_EQ(refused->status, 403) << origin;
    EXPECT_THAT(refused->body, HasSubstr("--cors"));
    EXPECT_FALSE(refused->has_header("Access-Control-Allow-Origin"));
  }
  for (const char* const host : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example"}) {
    const auto led_here = plain.client().Get("/metrics", {{"Host", host}});
    EXPECT_EQ(led_here->status, 421) << host;
    EXPECT_THAT(led_here->body, HasSubstr("localhost"));
  }
  EXPECT_EQ(plain.client().Get("/health", {{"Host", "localhost:1"}})->status, 200);
  const RunningServer all({.draft = "none", .host = "0.0.0.0"});
  EXPECT_EQ(all.client().Get("/health", {{"Host", "chat.example.com"}})->status, 200);
  EXPECT_EQ(ask(all, {{"Origin", "https://evil.example"}})->status, 403);
  const RunningServer locked({.draft = "none", .api_keys = {"secret"}});  // which no page has
  EXPECT_EQ(ask(locked, {{"Host", "chat.example.com"}, {"Authorization", "Bearer secret"}})->status, 200);
  EXPECT_EQ(ask(locked, {{"Origin", "https://chat.example.com"}, {"Authorization", "Bearer secret"}})->status, 200);
}

TEST(Server, PagesOfPermittedOriginsMayAskAndRead) {
  const RunningServer open(
      {.draft = "none", .api_keys = {"secret"}, .cors = {"https://a.example", "http://b.example"}});
  const auto prepare = [](const RunningServer& running, const std::string& origin) {
    return running.client().Options(completions, {{"Origin", origin},
                                                  {"Access-Control-Request-Method", "POST"},
                                                  {"Access-Control-Request-Headers", "authorization,content-type"}});
  };
  const auto answer = prepare(open, "https://a.example");
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->get_header_value("Access-Control-Allow-Origin"), "https://a.example");
  EXPECT_EQ(answer->get_header_value("Access-Control-Allow-Methods"), "GET, POST, DELETE");
  EXPECT_EQ(answer->get_header_value("Access-Control-Allow-Headers"), "authorization,content-type");
  EXPECT_EQ(answer->get_header_value("Vary"), "Origin");
  EXPECT_EQ(prepare(open, "https://c.example")->status, 403);
  const auto asked = ask(open, {{"Origin", "http://b.example"}, {"Authorization", "Bearer secret"}});
  EXPECT_EQ(asked->status, 200);
  EXPECT_EQ(asked->get_header_value("Access-Control-Allow-Origin"), "http://b.example");
  const auto without = ask(open, {{"Origin", "http://b.example"}});  // the page can read why not
  EXPECT_EQ(without->status, 401);
  EXPECT_EQ(without->get_header_value("Access-Control-Allow-Origin"), "http://b.example");
  const RunningServer any({.draft = "none", .cors = {"*"}});
  EXPECT_EQ(prepare(any, "https://c.example")->get_header_value("Access-Control-Allow-Origin"), "https://c.example");
  EXPECT_EQ(ask(any, {{"Origin", "https://c.example"}})->status, 200);
}

TEST(Server, AsksForAKeyWhereThereAreSome) {
  const RunningServer locked({.draft = "none", .api_keys = {"secret", "other"}});
  const Json body = {{"prompt", "Once"}, {"max_tokens", 2}};
  EXPECT_EQ(locked.post(completions, body)->status, 401);
  EXPECT_THAT(locked.post(completions, body)->body, HasSubstr("authentication_error"));
  for (const auto& [key, status] :
       std::vector<std::pair<std::string, int>>{{"secret", 200}, {"other", 200}, {"secre", 401}, {"", 401}}) {
    auto client = locked.client();
    client.set_bearer_token_auth(key.c_str());
    EXPECT_EQ(client.Post(completions, body.dump(), "application/json")->status, status) << key;
  }
  EXPECT_EQ(locked.post(completions, body)->get_header_value("WWW-Authenticate"), "Bearer");
  for (const char* const scheme : {"bearer", "BEARER"}) {
    const auto asked = locked.client().Get("/v1/models", {{"Authorization", std::string(scheme) + " secret"}});
    EXPECT_EQ(asked->status, 200) << scheme;
  }
  EXPECT_EQ(locked.client().Get("/v1/models", {{"Authorization", "Basic secret"}})->status, 401);
  EXPECT_EQ(locked.client().Get("/health")->status, 200);
}

TEST(Server, WhenFullSaysSoAndWhenToComeBack) {
  const RunningServer small({.limits = {.rows_per_pass = 64, .running_max = 1}, .waiting_max = 0});
  const Json longest = {{"prompt", "Once"}, {"max_tokens", 1000}, {"ignore_eos", true}};
  auto running = std::async(std::launch::async, [&] { return small.post(completions, longest)->status; });
  while (small.metric("draftproof_answers_running") < 1) std::this_thread::yield();
  const auto refused = small.post(completions, longest);
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->get_header_value("Retry-After"), "1");
  EXPECT_THAT(refused->body, HasSubstr("rate_limit_error"));
  EXPECT_EQ(running.get(), 200);
  const auto never = small.post(completions, {{"prompt", "Once"}, {"max_tokens", 2}, {"n", 2}});
  EXPECT_EQ(never->status, 400);
  EXPECT_THAT(never->body, HasSubstr("more choices"));
  EXPECT_EQ(small.post(completions, {{"prompt", "Once"}, {"max_tokens", 2}})->status, 200);
}

TEST(Server, WhenDrainedEndsWhatRunsAndRefusesWhatIsNew) {
  RunningServer draining({.draft = "none", .drain_seconds = 600});  // longer than it takes on a slow machine
  const Json longest = {{"prompt", "Once"}, {"max_tokens", 1000}, {"ignore_eos", true}, {"temperature", 0}};
  auto running = std::async(std::launch::async, [&] { return draining.answer(completions, longest); });
  while (draining.metric("draftproof_answers_running") < 1) std::this_thread::yield();
  draining.drain();
  EXPECT_EQ(draining.client().Get("/health")->status, 503);
  EXPECT_EQ(draining.post(completions, longest)->status, 503);
  const Json whole = running.get();
  EXPECT_EQ(whole["usage"]["completion_tokens"], 1000);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "length");
}

TEST(Server, AnAnswerIsCancelledSoonAfterItsClientHasGone) {
  const RunningServer running({.draft = "none"});
  const Json longest = {{"prompt", "Once"}, {"max_tokens", 1000}, {"ignore_eos", true}, {"stream", true}};
  for (int client = 0; client < 4; ++client) {
    std::size_t bytes = 0;
    httplib::Request request;
    request.method = "POST";
    request.path = completions;
    request.body = longest.dump();
    request.set_header("Content-Type", "application/json");
    request.content_receiver = [&](const char*, std::size_t more, std::uint64_t, std::uint64_t) {
      bytes += more;
      return bytes < 3000;  // then the connection is closed
    };
    auto going = running.client();
    EXPECT_FALSE(going.send(request));
  }
  const auto ended = [&] {  // the answers that run are counted a little later
    return running.metric("draftproof_answers_total{outcome=\"cancelled\"}") == 4 &&
           running.metric("draftproof_answers_running") == 0;
  };
  for (int wait = 0; wait < 500 && !ended(); ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(running.metric("draftproof_answers_total{outcome=\"cancelled\"}"), 4);
  EXPECT_EQ(running.metric("draftproof_answers_running"), 0);
}

TEST(ServerSlow, AnswersAreRightWithAQuarterOfTheMemoryThatTheyAskFor) {
  const RunningServer roomy;
  ModelFiles files(models + "tale-target");
  const CacheCost cost = [&] {
    Engine engine(files, LoadOptions(kernels_by_name("")));
    const std::string draft = "dflash:" + models + "tale-dflash";
    PhiloxSource none(0);
    Request request;
    request.prompt = {1};
    request.max_new_tokens = 1;
    return engine.open({.request = request, .draft = draft, .random = none}).cost;
  }();
  const int positions = 300;
  const RunningServer tight(
      {.limits = {.rows_per_pass = 64, .running_max = 8, .cache_bytes = cost.of(positions) * 2}, .prefix_bytes = 0});
  std::vector<std::future<std::pair<Json, Json>>> answers;
  for (int i = 0; i < 8; ++i) {
    answers.push_back(std::async(std::launch::async, [&, i] {
      const Json request = told(
          {{"prompt", "Once upon a time"}, {"temperature", 1}, {"seed", i}, {"max_tokens", 250}, {"ignore_eos", true}},
          i % 2 == 0);
      return std::pair(content(tight.answer(completions, request)), content(roomy.answer(completions, request)));
    }));
  }
  for (auto& answer : answers) {
    const auto [found, expected] = answer.get();
    EXPECT_EQ(found, expected);
  }
  EXPECT_GT(tight.metric("draftproof_preemptions_total"), 0);
  const auto never = tight.post(completions, {{"prompt", "Once"}, {"max_tokens", 900}});
  EXPECT_EQ(never->status, 400);
  EXPECT_THAT(never->body, HasSubstr("all caches together may have"));
}

}  // namespace
}  // namespace draftproof::serve::server_test
