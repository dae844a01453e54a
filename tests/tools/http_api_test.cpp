// SPDX-License-Identifier: MIT
#include "tools/http_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ref/base/error.h"

namespace draftproof::http_api_test {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;

const HttpApi& api(std::string_view name) {
  return *std::ranges::find_if(http_apis(), [&](const HttpApi& one) { return one.name == name; });
}

/// Answers as the engines' own pages show them.
EngineAnswer read(std::string_view name, const char* text) {
  TokenNames names;
  EngineAnswer answer;
  api(name).read(Json::parse(text), names, answer);
  finish_units(answer);
  return answer;
}

EngineRequest sampled_request() {
  EngineRequest request;
  request.prompt = {5, 6};
  request.max_new_tokens = 9;
  request.sampling.temperature = 0.5f;
  request.sampling.top_k = 7;
  request.banned = {3};
  request.stop_strings = {"end"};
  request.seed = 11;
  return request;
}

TEST(HttpApi, ALlamaServerIsAskedWithItsOwnDefaultsSwitchedOff) {
  const Json body = api("llama-server").body(sampled_request(), "m");
  EXPECT_EQ(body["prompt"], Json({5, 6}));
  EXPECT_EQ(body["n_predict"], 9);
  EXPECT_EQ(body["top_k"], 7);
  EXPECT_EQ(body["top_p"], 1.0);
  EXPECT_EQ(body["min_p"], 0.0);
  EXPECT_FALSE(body.contains("repeat_last_n"));
  EXPECT_EQ(body["logit_bias"], Json::parse("[[3,false]]"));
  EXPECT_EQ(body["cache_prompt"], false);
  EngineRequest penalized = sampled_request();
  penalized.sampling.presence_penalty = 0.5f;
  EXPECT_EQ(api("llama-server").body(penalized, "m")["repeat_last_n"], 11) << "prompt and new tokens";
  EXPECT_EQ(body["seed"], 11);
}

TEST(HttpApi, AnAnswerOfLlamaServerHasTokensLogprobsEndAndDrafts) {
  const EngineAnswer answer = read("llama-server", R"({"content":" a b","tokens":[7,8],"stop_type":"word",
    "stopping_word":"end","tokens_predicted":2,"tokens_evaluated":4,"timings":{"draft_n":6,"draft_n_accepted":2},
    "completion_probabilities":[
      {"id":7,"token":" a","logprob":-0.5,"top_logprobs":[{"id":7,"logprob":-0.5},{"id":9,"logprob":-1.5}]},
      {"id":8,"token":" b","logprob":-0.25,"top_logprobs":[{"id":8,"logprob":-0.25}]}]})");
  ASSERT_EQ(answer.texts.size(), 1u);
  EXPECT_THAT(answer.texts[0].tokens, ElementsAre(7, 8));
  EXPECT_THAT(answer.texts[0].logprobs, ElementsAre(-0.5, -0.25));
  EXPECT_THAT(answer.texts[0].top_logprobs[0], ElementsAre(TokenLogprob{7, -0.5}, TokenLogprob{9, -1.5}));
  EXPECT_EQ(answer.texts[0].finish, "stop");
  EXPECT_EQ(answer.texts[0].stop_string, "end");
  EXPECT_EQ(answer.prompt_tokens, 4);
  EXPECT_EQ(answer.drafted, 6);
  EXPECT_EQ(answer.accepted, 2);
}

TEST(HttpApi, VllmIsAskedForTokenIdsAndItsLogprobsNameTokensByThem) {
  const Json body = api("vllm").body(sampled_request(), "m");
  EXPECT_EQ(body["return_token_ids"], true);
  EXPECT_EQ(body["logit_bias"]["3"], -100);
  EXPECT_EQ(body["model"], "m");
  const EngineAnswer answer = read("vllm", R"({"choices":[{"index":0,"text":"a b","token_ids":[7,8],
    "finish_reason":"length","stop_reason":null,"logprobs":{"tokens":["token_id:7","token_id:8"],
    "token_logprobs":[-0.5,-0.25],"top_logprobs":[{"token_id:7":-0.5},{"token_id:8":-0.25,"token_id:1":-2}]}}],
    "usage":{"prompt_tokens":2,"completion_tokens":2}})");
  EXPECT_THAT(answer.texts[0].tokens, ElementsAre(7, 8));
  EXPECT_THAT(answer.texts[0].top_logprobs[1], ElementsAre(TokenLogprob{8, -0.25}, TokenLogprob{1, -2}));
  EXPECT_EQ(answer.texts[0].finish, "length");
  EXPECT_EQ(answer.completion_tokens, 2);
  EXPECT_EQ(answer.drafted, -1) << "it does not say";
}

TEST(HttpApi, OfAServerWithoutIdsUnitsAreNamesOfTokensElseBytes) {
  const EngineAnswer named = read("openai", R"({"choices":[{"index":0,"text":"a b","finish_reason":"stop",
    "logprobs":{"tokens":["a"," b","a"],"token_logprobs":[-1,-2,-3]}}]})");
  ASSERT_EQ(named.texts[0].tokens.size(), 3u);
  EXPECT_EQ(named.texts[0].tokens[0], named.texts[0].tokens[2]);
  EXPECT_GE(named.texts[0].tokens[1], 256);
  const EngineAnswer bytes = read("openai", R"({"choices":[{"index":0,"text":"ab","finish_reason":"stop"}]})");
  EXPECT_THAT(bytes.texts[0].tokens, ElementsAre('a', 'b'));
}

TEST(HttpApi, AnAnswerOfTextGenerationInferenceAndOneOfOllama) {
  const EngineAnswer tgi = read("tgi", R"([{"generated_text":" a","details":{"finish_reason":"eos_token",
    "generated_tokens":1,"tokens":[{"id":7,"text":" a","logprob":-0.5,"special":false}]}}])");
  EXPECT_THAT(tgi.texts[0].tokens, ElementsAre(7));
  EXPECT_EQ(tgi.texts[0].finish, "stop");
  const EngineAnswer ollama = read("ollama", R"({"response":"ab","done":true,"done_reason":"length","eval_count":2})");
  EXPECT_EQ(ollama.texts[0].text, "ab");
  EXPECT_EQ(ollama.texts[0].finish, "length");
  EXPECT_EQ(ollama.completion_tokens, 2);
}

TEST(HttpApi, WhatIsNoAnswerIsOneSentence) {
  for (const HttpApi& one : http_apis()) {
    for (const char* const text : {R"({})", R"([])", R"({"choices":3})", R"({"content":1})", R"("text")", R"(null)"}) {
      EXPECT_THROW(read(one.name, text), Error) << one.name << " " << text;
    }
  }
  EXPECT_THROW(read("llama-server", R"({"content":"a","tokens":[-1]})"), Error);
  EXPECT_THROW(read("openai", R"({"choices":[{"index":4000000,"text":"a"}]})"), Error);
  EXPECT_NO_THROW(read("llama-server", R"({"content":"a","completion_probabilities":[{"top_logprobs":{"a":1}},3]})"));
}

TEST(HttpApi, EveryInterfaceTakesEachCaseOfTheMatrixThatItSaysItTakes) {
  EngineRequest request = sampled_request();
  request.text = "a";
  for (const HttpApi& one : http_apis()) {
    EXPECT_NO_THROW(one.body(request, "m").dump()) << one.name;
    EXPECT_TRUE(one.takes.contains("temperature")) << one.name;
  }
}

}  // namespace
}  // namespace draftproof::http_api_test
