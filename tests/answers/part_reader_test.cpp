// SPDX-License-Identifier: MIT
// What published templates write is read back, wherever the text is divided.
#include "ref/answers/part_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/acceptance/numbers.h"

namespace draftproof::test::part_reader_test {
namespace {

using nlohmann::json;

struct Call {
  std::string name;
  std::string arguments;

  bool operator==(const Call&) const = default;
};
struct Answer {
  std::string thought, content;
  std::vector<Call> calls;

  bool operator==(const Answer&) const = default;
};

void take(const std::vector<AnswerPart>& parts, Answer& answer) {
  for (const AnswerPart& part : parts) {
    switch (part.kind) {
      case AnswerPart::Kind::thought: answer.thought += part.text; break;
      case AnswerPart::Kind::content: answer.content += part.text; break;
      case AnswerPart::Kind::call: answer.calls.push_back({part.text, ""}); break;
      case AnswerPart::Kind::arguments: ASSERT_FALSE(answer.calls.empty()); answer.calls.back().arguments += part.text;
    }
  }
}

/// `next`: how many bytes of the text come at once.
template <class Next>
Answer read(const AnswerFormat& format, const AnswerTerms& terms, std::string_view text, const Next& next) {
  const auto reader = PartReader::open(format, terms);
  Answer answer;
  while (!text.empty()) {
    const std::size_t count = std::min<std::size_t>(text.size(), next());
    take(reader->push(text.substr(0, count)), answer);
    text.remove_prefix(count);
  }
  take(reader->finish(), answer);
  return answer;
}
Answer read(const AnswerFormat& format, const AnswerTerms& terms, std::string_view text) {
  return read(format, terms, text, [&] { return text.size(); });
}

const json& fixture() {
  static const json all =
      json::parse(std::ifstream(DRAFTPROOF_SOURCE_DIR "/fixtures/external/tool-calls/answers.json"));
  return all;
}

/// A template that has these texts.
AnswerFormat format_of(const json& row) {
  std::string source;
  for (const json& sign : row["signs"]) source += sign.get<std::string>() + "\n";
  return AnswerFormat::of_template(source);
}

const TextArguments texts = {{"get_weather", "city"}};

TEST(PartReader, ReadsThoughtsContentAndCallsAsPublishedTemplatesWriteThem) {
  int known = 0;
  for (const json& row : fixture()["answers"]) {
    const std::string name = row["template"];
    std::string text = row["answer"];
    for (const char* const stop :
         {"<|END_OF_TURN_TOKEN|>", "<|tool_response>", "<|eom_id|>", "<｜hy_eos:opensource｜>"}) {
      text.resize(std::min(text.size(), text.find(stop)));
    }
    text.erase(0, text.find_first_not_of(' '));
    if (name == "deepseek-ai-DeepSeek-V3.2") text.erase(0, text.find("Let"));  // what the prompt ends with
    const AnswerFormat format = format_of(row);
    ASSERT_NE(format.calls, nullptr) << name;
    ++known;
    AnswerTerms terms = {thinking_after(format, row["before"].get<std::string>()), true, texts};
    if (name.starts_with("Apriel-1.6")) terms.thinking = Thinking::begun;    // by the prompt, not in past answers
    if (name == "NVIDIA-Nemotron-Nano-v2") terms.thinking = Thinking::none;  // which it does not close
    const Answer answer = read(format, terms, text);
    ASSERT_EQ(answer.calls.size(), row["calls"].size()) << name << "\n" << text << "\n" << answer.content;
    for (std::size_t i = 0; i < answer.calls.size(); ++i) {
      EXPECT_EQ(answer.calls[i].name, "get_weather") << name;
      ASSERT_TRUE(json::accept(answer.calls[i].arguments)) << name << answer.calls[i].arguments;
      json call = row["calls"][i];
      if (name == "MiniMax-M3" && call.contains("deep")) call["deep"].erase("x");  // it writes no null
      EXPECT_EQ(json::parse(answer.calls[i].arguments), call) << name;
    }
    const std::string thought = fixture()["thought"];
    const std::string content = fixture()["content"];
    const bool one_message = name.find("R1-Distill") == std::string::npos && name != "NVIDIA-Nemotron-Nano-v2";
    if (name == "openai-gpt-oss-120b") {  // content before a call is in the channel of thoughts
      EXPECT_EQ(answer.thought, content);
      EXPECT_EQ(answer.content, "");
    } else if (one_message) {
      EXPECT_EQ(answer.content, text.find(content) == std::string::npos ? "" : content) << name;
      EXPECT_EQ(answer.thought, text.find(thought) == std::string::npos ? "" : thought) << name;
    }
    EXPECT_EQ(read(format, terms, text, [] { return 1; }), answer) << name;
    Numbers numbers{7};
    for (int round = 0; round < 20; ++round) {
      EXPECT_EQ(read(format, terms, text, [&] { return 1 + numbers.next() % 40; }), answer) << name;
    }
    // Without tools all of it is content, but for blanks around thoughts.
    const Answer without = read(format, {terms.thinking, false, {}}, text);
    EXPECT_TRUE(without.calls.empty()) << name;
    const std::string all = name == "openai-gpt-oss-120b" ? "\"city\"" : "get_weather";  // who is asked is in a header
    EXPECT_NE(without.content.find(all), std::string::npos) << name;
  }
  EXPECT_GE(known, 57);
}

TEST(PartReader, AnAnswerThatIsCutOffKeepsWhatWasCertain) {
  for (const json& row : fixture()["answers"]) {
    const AnswerFormat format = format_of(row);
    // Marks of gpt-oss are tokens, which no answer ends in the middle of.
    if (format.calls == nullptr || format.calls->body == CallFormat::Body::harmony) continue;
    const std::string text = row["answer"];
    const AnswerTerms terms = {thinking_after(format, row["before"].get<std::string>()), true, texts};
    const Answer whole = read(format, terms, text);
    for (std::size_t cut = 0; cut < text.size(); ++cut) {
      const Answer some = read(format, terms, std::string_view(text).substr(0, cut), [] { return 3; });
      ASSERT_LE(some.calls.size(), whole.calls.size());
      for (std::size_t i = 0; i < some.calls.size(); ++i) {
        EXPECT_EQ(some.calls[i].name, whole.calls[i].name) << row["template"] << cut;
        const bool last = i + 1 == some.calls.size();
        if (last) EXPECT_THAT(whole.calls[i].arguments, testing::StartsWith(some.calls[i].arguments));
        else EXPECT_EQ(some.calls[i].arguments, whole.calls[i].arguments);
      }
    }
  }
}

AnswerFormat named(std::string_view name) {
  AnswerFormat format;
  for (const CallFormat& one : call_formats()) {
    if (one.name == name) format.calls = &one;
  }
  return format;
}

TEST(PartReader, WhatIsNoCallIsContent) {
  for (const auto& [name, text] : std::initializer_list<std::pair<const char*, std::string>>{
           {"Hermes", "Write <tool_call> and then JSON."},
           {"Hermes", "<tool_call>\n{\"arguments\": {}}\n</tool_call>"},
           {"Hermes", "<tool_call>\n{\"name\": 3}\n</tool_call>"},
           {"Hermes", "a <tool"},
           {"Hermes", "<tool_call>"},
           {"Llama 3", "Yes: {\"name\": \"f\", \"parameters\": {}}"},
           {"Llama 3", "{\"answer\": 42}"},
           {"Mistral v0.3", "[TOOL_CALLS] is a mark"},
           {"Qwen3-Coder", "<tool_call>\n<function=>\n</function>\n</tool_call>"},
           {"DeepSeek V3", "<｜tool▁calls▁begin｜>no<｜tool▁calls▁end｜>"},
           {"LFM2", "<|tool_call_start|>[f]<|tool_call_end|>"}}) {
    const AnswerFormat format = named(name);
    ASSERT_NE(format.calls, nullptr) << name;
    for (const std::size_t step : {std::size_t{1}, std::size_t{3}, text.size()}) {
      const Answer answer = read(format, {Thinking::none, true, {}}, text, [&] { return step; });
      EXPECT_EQ(answer.content, text) << name << step;
      EXPECT_TRUE(answer.calls.empty()) << name;
    }
  }
}

TEST(PartReader, ArgumentsComeAsTheyAreWritten) {
  const auto reader = PartReader::open(named("Hermes"), {Thinking::none, true, {}});
  EXPECT_TRUE(reader->push("<tool_call>\n{\"name\": \"f").empty());
  const auto call = reader->push("\", \"arguments\": {\"text\": \"one ");
  ASSERT_EQ(call.size(), 2U);
  EXPECT_EQ(call[0], (AnswerPart{AnswerPart::Kind::call, "f"}));
  EXPECT_EQ(call[1], (AnswerPart{AnswerPart::Kind::arguments, "{\"text\": \"one "}));
  const auto more = reader->push("two\\\"");
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].text, "two\\\"");
}

TEST(PartReader, TheTypeOfAnArgumentSaysHowItsTextIsRead) {
  const std::string text =
      "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>12</arg_value>\n<arg_key>b</arg_key>\n<arg_value>12</arg_value>\n"
      "<arg_key>c</arg_key>\n<arg_value>x y</arg_value>\n</tool_call>";
  const Answer answer = read(named("GLM-4.5"), {Thinking::none, true, {{"f", "a"}}}, text);
  ASSERT_EQ(answer.calls.size(), 1U);
  EXPECT_EQ(answer.calls[0].arguments, R"({"a": "12", "b": 12, "c": "x y"})");
}

TEST(PartReader, AMarkMaySayWhetherAnArgumentIsText) {
  const auto argument = [](const std::string& key, const std::string& is_text, const std::string& value) {
    return "<｜DSML｜parameter name=\"" + key + "\" string=\"" + is_text + "\">" + value + "</｜DSML｜parameter>\n";
  };
  const std::string text = "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n" + argument("a", "true", "12") +
                           argument("b", "false", "12") + "</｜DSML｜invoke>\n</｜DSML｜function_calls>";
  const Answer answer = read(named("DeepSeek V3.2"), {Thinking::none, true, {{"f", "b"}}}, text);
  ASSERT_EQ(answer.calls.size(), 1U) << answer.content;
  EXPECT_EQ(answer.calls[0].arguments, R"({"a": "12", "b": 12})");
}

TEST(PartReader, ElementsAreObjectsArraysAndTexts) {
  const auto element = [](const std::string& key, const std::string& value) {
    return "]<]minimax[>[<" + key + ">" + value + "]<]minimax[>[</" + key + ">";
  };
  const std::string text = "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"f\">" +
                           element("a", element("item", "1") + element("item", element("b", "2") + element("c", "3"))) +
                           element("d", " <x> ") + "]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>";
  for (const std::size_t step : {std::size_t{1}, std::size_t{5}, text.size()}) {
    const Answer answer =
        read(named("MiniMax-M3"), {Thinking::none, true, {{"f", "a.item.c"}}}, text, [&] { return step; });
    ASSERT_EQ(answer.calls.size(), 1U) << answer.content;
    EXPECT_EQ(answer.calls[0].arguments, R"({"a": [1, {"b": 2, "c": "3"}], "d": " <x> "})");
  }
}

TEST(PartReader, FormatsWhoseTemplatesAreNotInTheFixture) {
  const auto one = [](const char* name, const std::string& text) {
    const Answer answer = read(named(name), {Thinking::none, true, {}}, text, [] { return 1; });
    return answer.calls.size() == 1 ? answer.content + answer.calls[0].name + answer.calls[0].arguments : "no call";
  };
  EXPECT_EQ(one("FunctionGemma", "<start_function_call>call:f{city:<escape>a, b<escape>,days:2}<end_function_call>"),
            R"(f{"city": "a, b", "days": 2})");
  EXPECT_EQ(one("LongCat",
                "<longcat_tool_call>f\n<longcat_arg_key>city</longcat_arg_key>\n"
                "<longcat_arg_value>Rome</longcat_arg_value>\n</longcat_tool_call>"),
            R"(f{"city": "Rome"})");
  EXPECT_EQ(one("LongCat-Flash", "<longcat_tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</longcat_tool_call>"),
            "f{}");
  EXPECT_EQ(one("Llama 4", "[f(city='Rome', days=2)]"), R"(f{"city": "Rome", "days": 2})");
}

TEST(PartReader, WhatStandsAroundContentIsNoPartOfIt) {
  const auto content = [](const char* name, bool calls, const std::string& text) {
    const Answer answer = read(named(name), {Thinking::none, calls, {}}, text, [] { return 1; });
    EXPECT_TRUE(answer.calls.empty());
    return answer.content;
  };
  for (const bool calls : {false, true}) {
    EXPECT_EQ(content("Functionary 3.2", calls, "all\nIt is >>> warm."), "It is >>> warm.") << calls;
    EXPECT_EQ(content("Functionary 3.2", calls, ""), "");
    EXPECT_EQ(content("Functionary 3.2", calls, "It is warm."), "It is warm.");
    EXPECT_EQ(content("Kimi K3", calls, "<|open|>response<|sep|>Warm.<|close|>response<|sep|>"), "Warm.");
    EXPECT_EQ(content("Muse Glimmer", calls, " to=user<|message|>Write to=me.<|eot|>"), "Write to=me.");
    EXPECT_EQ(content("Solar Open", calls, "<|content|>Warm.<|end|>"), "Warm.");
  }
  static constexpr ThoughtMarks think = {"<|open|>think<|sep|>", "<|close|>think<|sep|>"};
  const AnswerFormat kimi = {named("Kimi K3").calls, &think};
  EXPECT_EQ(thinking_after(kimi, "<|open|>response<|sep|>"), Thinking::none);
  EXPECT_EQ(thinking_after(kimi, "<|open|>think<|sep|>"), Thinking::begun);
  const Answer answer = read(named("Functionary 3.2"), {Thinking::none, true, {}}, "allow\n{\"a\": 1}>>>all\nSo.");
  ASSERT_EQ(answer.calls.size(), 1U);
  EXPECT_EQ(answer.calls[0].name, "allow");
  EXPECT_EQ(answer.content, "So.");
}

TEST(PartReader, LongArgumentsCostLittleMoreThanTheirText) {
  std::string text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"text\": \"";
  text += std::string(1 << 20, 'x') + "\"}}\n</tool_call>";
  const auto begin = std::chrono::steady_clock::now();
  const Answer answer = read(named("Hermes"), {Thinking::none, true, {}}, text, [] { return 4; });
  ASSERT_EQ(answer.calls.size(), 1U);
  EXPECT_EQ(answer.calls[0].arguments.size(), (1U << 20) + 12);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << "it takes half a second";
}

/// Of what a model may write anything is read without a crash, and no byte that is not part of a call gets lost.
TEST(PartReader, RandomMarksAreReadInTheSameWayHoweverTheyAreDivided) {
  Numbers numbers{11};
  for (const CallFormat& calls : call_formats()) {
    static constexpr ThoughtMarks marks = {"<think>", "</think>"};
    const AnswerFormat format = {&calls, &marks};
    const std::vector<std::string> pieces = {std::string(calls.section),
                                             std::string(calls.begin),
                                             std::string(calls.after_name),
                                             std::string(calls.end),
                                             std::string(calls.separator),
                                             std::string(calls.section_end),
                                             std::string(calls.before_key),
                                             std::string(calls.after_key),
                                             std::string(calls.after_value),
                                             "f",
                                             "{",
                                             "}",
                                             "\"name\"",
                                             ": ",
                                             "\"f\"",
                                             ", ",
                                             "\"arguments\": {",
                                             "(a='",
                                             "')",
                                             "<think>",
                                             "</think>",
                                             "\n",
                                             "[",
                                             "]",
                                             "\\",
                                             "<",
                                             "x",
                                             "<|channel|>",
                                             "<|message|>",
                                             "<|end|>",
                                             "<|\"|>",
                                             std::string(calls.kinds.empty() ? "" : calls.kinds.back()),
                                             std::string(calls.frame.empty() ? "x" : calls.frame.front())};
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (int i = 0; i < 12; ++i) text += pieces[numbers.next() % pieces.size()];
      const auto thinking = static_cast<Thinking>(numbers.next() % 3);
      const AnswerTerms terms = {thinking, true, {{"f", "a"}}};
      const Answer whole = read(format, terms, text);
      EXPECT_EQ(read(format, terms, text, [] { return 1; }), whole) << calls.name << "\n" << text;
    }
  }
}

}  // namespace
}  // namespace draftproof::test::part_reader_test
