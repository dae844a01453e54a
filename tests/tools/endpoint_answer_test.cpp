// SPDX-License-Identifier: MIT
// An answer of any server is read, or refused in a sentence that names what is wrong with it.
#include "tools/endpoint_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "ref/base/error.h"

namespace draftproof::test::endpoint_answer_test {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

EndpointRequest make_verify_request(bool chat) {
  EndpointRequest request;
  request.number = 7;
  request.chat = chat;
  request.choices.resize(1);
  return request;
}

ordered_json list(const ordered_json& one) { return ordered_json::array({one}); }

ordered_json answer_of(bool chat) {
  const ordered_json token = {{"id", 5}, {"text", "a"}};
  const ordered_json round = {{"drafted", 2}, {"accepted", 1}, {"tokens", list(token)}};
  ordered_json choice = {{"index", 0}, {"finish_reason", "stop"}, {"rounds", list(round)}};
  if (chat) {
    const ordered_json other = {{"logprob", -0.75}, {"bytes", list(98)}};
    const ordered_json logprobs = {{"logprob", -0.5}, {"bytes", list(97)}, {"top_logprobs", list(other)}};
    choice["message"] = {{"content", "a"}};
    choice["logprobs"] = {{"content", list(logprobs)}};
  } else {
    choice["text"] = "a";
    choice["logprobs"] = {{"token_logprobs", list(-0.5)},
                          {"tokens", list("a")},
                          {"text_offset", list(0)},
                          {"top_logprobs", list({{"a", -0.5}})}};
  }
  return {{"choices", list(choice)}, {"usage", {{"prompt_tokens", 3}, {"completion_tokens", 1}}}};
}

ordered_json chunk_of(bool chat) {
  const ordered_json answer = answer_of(chat);
  ordered_json choice = answer["choices"][0];
  if (chat) choice["delta"] = answer["choices"][0]["message"];
  choice.erase("rounds");
  return {{"choices", list(choice)}, {"round", answer["choices"][0]["rounds"][0]}, {"usage", answer["usage"]}};
}

/// What is said about an answer; empty: it is read.
std::string refusal(bool chat, const std::string& text, bool stream = false) {
  const EndpointRequest request = make_verify_request(chat);
  AnswerReader reader(request);
  try {
    stream ? reader.read_event(text) : reader.read_whole(text);
    return "";
  } catch (const Error& wrong) {
    return wrong.what();
  }
}

TEST(AnswerReader, ReadsWhatThisProjectsServerAnswers) {
  for (const bool chat : {false, true}) {
    const EndpointRequest request = make_verify_request(chat);
    AnswerReader whole(request), streamed(request);
    whole.read_whole(answer_of(chat).dump());
    streamed.read_event(chunk_of(chat).dump());
    streamed.read_event("[DONE]");
    for (const AnswerReader* const reader : {&whole, &streamed}) {
      const ReceivedChoice& choice = reader->answer().choices.at(0);
      EXPECT_EQ(choice.tokens, std::vector<Token>{5});
      EXPECT_EQ(choice.text, "a");
      EXPECT_EQ(choice.finish, "stop");
      EXPECT_EQ(choice.logprobs.size(), 1U);
      EXPECT_EQ(reader->answer().prompt_tokens, 3);
      EXPECT_TRUE(reader->answer().ended);
    }
  }
}

/// Calls `visit` with every value of the JSON, and its place.
void visit_all(const ordered_json& json, const ordered_json::json_pointer& place,
               const std::function<void(const ordered_json::json_pointer&)>& visit) {
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) {
    const auto at = json.is_array() ? place / static_cast<std::size_t>(std::stoul(key)) : place / key;
    visit(at);
    visit_all(value, at, visit);
  }
}

TEST(AnswerReader, NoFieldThatIsMissingOrOfAnotherTypeEndsInALibrarysWords) {
  const ordered_json others[] = {nullptr, true, -1, 1e300, "x", ordered_json::array(), ordered_json::object(), list(1)};
  int refused = 0;
  for (const bool chat : {false, true}) {
    for (const bool stream : {false, true}) {
      const ordered_json right = stream ? chunk_of(chat) : answer_of(chat);
      ASSERT_EQ(refusal(chat, right.dump(), stream), "");
      const auto damage = [&](const ordered_json& json) {
        const std::string said = refusal(chat, json.dump(), stream);
        if (said.empty()) return;
        ++refused;
        EXPECT_THAT(said, AllOf(HasSubstr("the answer to request 7 is not one of draftproof's API: "),
                                Not(HasSubstr("json.exception"))))
            << json.dump();
      };
      visit_all(right, ordered_json::json_pointer(), [&](const ordered_json::json_pointer& place) {
        for (const ordered_json& other : others) {
          ordered_json json = right;
          json[place] = other;
          damage(json);
        }
        ordered_json json = right;
        ordered_json& holder = json[place.parent_pointer()];
        if (holder.is_object()) holder.erase(place.back());
        else holder.erase(static_cast<std::size_t>(std::stoul(place.back())));
        damage(json);
      });
      for (const char* const text : {"", "<html>", "[]", "7", "null", "{\"choices\":[", "\xff"}) {
        EXPECT_NE(refusal(chat, text, stream), "") << text;
      }
    }
  }
  EXPECT_GT(refused, 400);
}

TEST(AnswerReader, NamesTheFieldThatIsWrong) {
  const auto with = [](const char* place, const ordered_json& value) {
    ordered_json json = answer_of(false);
    json[ordered_json::json_pointer(place)] = value;
    return refusal(false, json.dump());
  };
  EXPECT_THAT(with("/choices", 7), HasSubstr("its field `choices` is not a list"));
  EXPECT_THAT(with("/choices/0/rounds/0", "x"), HasSubstr("it has no object where a field `drafted` belongs"));
  EXPECT_THAT(with("/choices/0/rounds/0/tokens/0", ordered_json::object()), HasSubstr("it lacks the field `id`"));
  EXPECT_THAT(with("/choices/0/index", 16), HasSubstr("it has a choice 16, and 1 were asked for"));
  EXPECT_THAT(with("/usage/prompt_tokens", "many"), HasSubstr("its field `prompt_tokens` is not a count"));
}

TEST(AnswerReader, KeepsTheErrorOfAServerThatGivesUp) {
  const EndpointRequest request = make_verify_request(false);
  for (const char* const text : {R"({"error":{"message":"no memory"}})", R"({"error":"no memory"})"}) {
    AnswerReader reader(request);
    reader.read_event(text);
    EXPECT_EQ(reader.answer().error, "no memory");
  }
  EXPECT_EQ(error_message_in(R"({"error":{"message":7}})"), "no message");
  EXPECT_EQ(error_message_in(R"({"error":null})"), std::nullopt);
}

}  // namespace
}  // namespace draftproof::test::endpoint_answer_test
