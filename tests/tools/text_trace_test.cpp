// SPDX-License-Identifier: MIT
#include "tools/text_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ref/base/error.h"

namespace draftproof::text_trace_test {
namespace {

using testing::HasSubstr;
using testing::Not;

WrittenText written(std::vector<Token> tokens, const std::string& finish) {
  WrittenText text;
  text.request.prompt = {1, 2};
  text.request.sampling.temperature = 0.5f;
  text.request.sampling.top_k = 3;
  text.text.tokens = std::move(tokens);
  text.text.finish = finish;
  return text;
}

const TextTrace about = {.engine = "e", .vocabulary = 10, .stops = {9}, .sampler_order = {"top_k", "temperature"}};

TEST(TextTrace, ATextIsASequenceOfOneRound) {
  const std::vector<WrittenText> texts = {written({}, "stop"), written({4, 9}, "stop"), written({5}, "length")};
  const auto sequence = [](const std::string& number) {
    return R"({"type":"sequence","sequence":)" + number +
           R"(,"prompt":[1,2],"temperature":"0x1p-1","top_k":3,"repeat_last_n":-1,"max_new_tokens":32,)" +
           R"("stop_tokens":[9],"sampler_order":["top_k","temperature"]})" + "\n";
  };
  EXPECT_EQ(text_trace(about, std::span(texts).subspan(1)),
            R"({"type":"header","schema":"spectrace/2","engine":"e","vocabulary":10,"rule":"rejection"})"
            "\n" +
                sequence("0") +
                R"({"type":"round","sequence":0,"round":0,"position":2,"emitted":[4,9]}
{"type":"end","sequence":0,"reason":"stop"}
)" + sequence("1") +
                R"({"type":"round","sequence":1,"round":0,"position":2,"emitted":[5]}
{"type":"end","sequence":1,"reason":"length"}
)");
}

TEST(TextTrace, WhereAStopTokenIsLeftOutOfATextTheTraceSaysSo) {
  const std::string field = R"("stop_token_emitted":false)";
  EXPECT_THAT(text_trace(about, std::vector{written({4}, "stop")}), HasSubstr(field));
  EXPECT_THAT(text_trace(about, std::vector{written({4, 9}, "stop")}), Not(HasSubstr(field)));
}

TEST(TextTrace, ATokenThatTheTargetDoesNotHaveIsAnError) {
  EXPECT_THROW(text_trace(about, std::vector{written({10}, "length")}), Error);
}

}  // namespace
}  // namespace draftproof::text_trace_test
