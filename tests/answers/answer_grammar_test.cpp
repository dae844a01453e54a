// SPDX-License-Identifier: MIT
// What a grammar of answers lets through is what the reader of answers reads, and nothing else.
#include "ref/answers/answer_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "ref/answers/part_reader.h"
#include "ref/base/error.h"
#include "ref/grammar/grammar_constraint.h"
#include "ref/grammar/grammar_states.h"
#include "ref/grammar/json_schema.h"

namespace draftproof::test::answer_grammar_test {
namespace {

using testing::HasSubstr;

const Tokenizer& tokenizer() {
  static const Tokenizer tale = Tokenizer::load(DRAFTPROOF_SOURCE_DIR "/fixtures/models/tale-target");
  return tale;
}

constexpr ThoughtMarks think = {"<think>", "</think>"};

CallTerms weather(CallChoice choice, bool strict) {
  const char* const schema = R"({"type": "object", "properties": {"city": {"type": "string"},
      "days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["city"]})";
  return {{{"get_weather", Json::parse(schema, "the schema"), strict}, {"now", std::nullopt, strict}}, choice, true};
}

Grammar grammar_of(const AnswerFormat& format, Thinking thinking, const CallTerms& calls,
                   const std::optional<std::string>& content = {}) {
  const auto gbnf = answer_gbnf(format, thinking, calls, content, tokenizer());
  EXPECT_TRUE(gbnf.has_value());
  return Grammar::from_gbnf(gbnf.value_or("root ::= \"\""), "the answer");
}

bool allows(const Grammar& grammar, std::string_view text) {
  GrammarStates states(grammar);
  int state = states.start();
  for (const char byte : text) state = states.next(state, static_cast<unsigned char>(byte));
  return states.accepts(state);
}

/// A call with these arguments, as the format has it.
std::string written(const CallFormat& calls, const std::string& name, const std::string& city) {
  using Body = CallFormat::Body;
  const auto mark = [&](std::string_view text) {
    std::string result(text);
    const std::string star =
        text == calls.after_key ? std::string(calls.kinds.empty() ? "" : calls.kinds.front()) : "7";
    if (const std::size_t at = result.find('*'); at != std::string::npos) result.replace(at, 1, star);
    return result;
  };
  const std::string arguments = city.empty() ? "{}" : "{\"city\": " + json_string(city) + "}";
  const std::string quote(calls.quote);
  std::string text = mark(calls.begin);
  if (calls.body != Body::object) text += name + mark(calls.after_name);
  switch (calls.body) {
    case Body::object:
      text += "{\"" + std::string(calls.name_key) + "\": \"" + name + "\", \"" + std::string(calls.arguments_key) +
              "\": " + arguments + "}";
      break;
    case Body::parameters:
      if (!city.empty())
        text += mark(calls.before_key) + "city" + mark(calls.after_key) + city + mark(calls.after_value);
      break;
    case Body::elements:
      if (!city.empty()) text += mark(calls.before_key) + "city>" + city + mark(calls.after_value) + "city>";
      break;
    case Body::python: text += city.empty() ? "()" : "(city='" + city + "')"; break;
    case Body::gemma: text += city.empty() ? "{}" : "{city:" + quote + city + quote + "}"; break;
    default: text += arguments;
  }
  return text + mark(calls.end);
}

TEST(AnswerGrammar, ForcedCallsAreCallsOfTheToolsAndAreReadBack) {
  for (const CallFormat& calls : call_formats()) {
    const AnswerFormat format = {&calls, nullptr};
    const Grammar grammar = grammar_of(format, Thinking::none, weather(CallChoice::forced, false));
    const auto answer = [&](const std::string& body) {
      const std::string text = std::string(calls.section) + body + std::string(calls.section_end);
      return calls.opened ? text.substr(calls.begin.size()) : text;
    };
    const std::string one = written(calls, "get_weather", "New York");
    const std::string other = written(calls, "now", "");
    const std::string both = answer(one + std::string(calls.separator) + other);
    EXPECT_TRUE(allows(grammar, answer(one))) << calls.name << "\n" << answer(one);
    EXPECT_TRUE(allows(grammar, answer(other))) << calls.name << "\n" << answer(other);
    EXPECT_EQ(allows(grammar, both), !calls.one) << calls.name << "\n" << both;
    EXPECT_FALSE(allows(grammar, answer(written(calls, "delete_all", "")))) << calls.name;
    EXPECT_FALSE(allows(grammar, answer(written(calls, "get_weather", "")))) << calls.name << ": city is required";
    EXPECT_FALSE(allows(grammar, answer(written(calls, "now", "Rome")))) << calls.name << ": it has no arguments";
    EXPECT_FALSE(allows(grammar, "It is warm.")) << calls.name;
    EXPECT_FALSE(allows(grammar, "")) << calls.name;
    const auto reader = PartReader::open(format, {Thinking::none, true, {{"get_weather", "city"}}});
    std::string name;
    std::string arguments;
    for (const auto& parts : {reader->push(answer(one)), reader->finish()}) {
      for (const AnswerPart& part : parts) {
        if (part.kind == AnswerPart::Kind::call) name += part.text;
        if (part.kind == AnswerPart::Kind::arguments) arguments += part.text;
      }
    }
    EXPECT_EQ(name, "get_weather") << calls.name;
    EXPECT_EQ(arguments, "{\"city\": \"New York\"}") << calls.name;
  }
}

const CallFormat& named(std::string_view name) {
  for (const CallFormat& one : call_formats()) {
    if (one.name == name) return one;
  }
  throw Error("there is no such format");
}

TEST(AnswerGrammar, WhereTheModelDecidesAnswersAreFreeUpToACall) {
  const AnswerFormat format = {&named("Hermes"), nullptr};
  EXPECT_EQ(answer_gbnf(format, Thinking::none, weather(CallChoice::free, false), {}, tokenizer()), std::nullopt);
  const Grammar grammar = grammar_of(format, Thinking::none, weather(CallChoice::free, true));
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  for (const std::string& text : {std::string(), std::string("It is <b>warm</b>, <tool_cal and <<tool_"), call,
                                  "Let me see.\n" + call, call + "\n" + call + " done"}) {
    EXPECT_TRUE(allows(grammar, text)) << text;
  }
  for (const char* const text : {"<tool_call>", "I write <tool_call>now</tool_call>",
                                 "<tool_call>\n{\"name\": \"then\", \"arguments\": {}}\n</tool_call>",
                                 "<<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": 3}}</tool_call>"}) {
    EXPECT_FALSE(allows(grammar, text)) << text;
  }
  CallTerms one = weather(CallChoice::free, true);
  one.several = false;
  const Grammar single = grammar_of(format, Thinking::none, one);
  EXPECT_TRUE(allows(single, "Let me see. " + call));
  EXPECT_FALSE(allows(single, call + call));
}

TEST(AnswerGrammar, WhatAnAnswerIsHeldToBeginsBehindItsThoughts) {
  const AnswerFormat format = {nullptr, &think};
  const std::string content = "root ::= \"root\" | [r] \"x\" # root\n";
  const Grammar begun = grammar_of(format, Thinking::begun, {}, content);
  EXPECT_TRUE(allows(begun, "What is a root? <think> </thin</think>\n\nroot"));
  EXPECT_TRUE(allows(begun, "</think>rx"));
  EXPECT_FALSE(allows(begun, "root"));
  EXPECT_FALSE(allows(begun, "a</think>b</think>root")) << "thoughts end at the first mark";
  const Grammar possible = grammar_of(format, Thinking::possible, {}, content);
  EXPECT_TRUE(allows(possible, "<think>\nWell.\n</think>\n\nroot"));
  EXPECT_TRUE(allows(possible, "root"));
  EXPECT_FALSE(allows(possible, "Well.</think>root"));
  EXPECT_EQ(answer_gbnf(format, Thinking::none, {}, content, tokenizer()), content);
  const CallFormat& hermes = named("Hermes");
  const Grammar forced = grammar_of({&hermes, &think}, Thinking::begun, weather(CallChoice::forced, false));
  EXPECT_TRUE(allows(forced, "Hm.</think>\n\n<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"));
  EXPECT_FALSE(allows(forced, "Hm.</think>\n\nNow."));
}

/// Every notation, by the text of a call of f.
TEST(AnswerGrammar, LiteralsAreHeldToTheirSchemasOrRefused) {
  const auto terms = [](const std::string& schema, bool strict = true) {
    return CallTerms{{{"f", Json::parse(schema, "schema"), strict}}, CallChoice::forced, true};
  };
  struct Notation {
    const char* name;
    std::function<std::string(std::string)> call;  // with the value of a
  };
  const std::vector<Notation> notations = {
      {"LFM2", [](const std::string& a) { return "<|tool_call_start|>[f(a=" + a + ")]<|tool_call_end|>"; }},
      {"Gemma 4", [](const std::string& a) { return "<|tool_call>call:f{a:" + a + "}<tool_call|>"; }},
      {"MiniMax-M3", [](const std::string& a) {
         return "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<a>" + a +
                "]<]minimax[>[</a>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>";
       }}};
  struct Value {
    const char* schema;  // of a
    std::array<std::vector<std::string>, 3> right;
    std::array<std::vector<std::string>, 3> wrong;
  };
  const std::vector<Value> values = {
      {R"({"type":"string"})",
       {{{"'it'", R"("it's")", R"('it\'s')"}, {"<|\"|>it's \"x\"<|\"|>"}, {"it's", ""}}},
       {{{"it", "3", "'a\nb'"}, {"it", "3"}, {"]<]minimax[>[<b>"}}}},
      {R"({"type":"integer","minimum":1,"maximum":12})",
       {{{"12"}, {"7"}, {"1"}}},
       {{{"13", "'1'"}, {"0", "<|\"|>1<|\"|>"}, {"x"}}}},
      {R"({"type":"number"})", {{{"1.5"}, {"-2"}, {"3e4"}}}, {{{"x"}, {"true"}, {""}}}},
      {R"({"type":["boolean","null"]})",
       {{{"True", "False", "None"}, {"true", "false", "null"}, {"true", "null"}}},
       {{{"true"}, {"True"}, {"None"}}}},
      {R"({"enum":["a b", 3, null]})",
       {{{"'a b'", "\"a b\"", "3", "None"}, {"<|\"|>a b<|\"|>", "3", "null"}, {"a b", "3", "null"}}},
       {{{"'a'", "4"}, {"<|\"|>a<|\"|>"}, {"a", "33"}}}},
      {R"({"type":"string","enum":["abc","d",1,null],"maxLength":1})",
       {{{"'d'"}, {"<|\"|>d<|\"|>"}, {"d"}}},
       {{{"'abc'", "1", "None"}, {"<|\"|>abc<|\"|>", "1", "null"}, {"abc", "1", "null"}}}},
      {R"({"enum":[1,5,9,"x"],"const":5,"minimum":2,"exclusiveMaximum":9})",
       {{{"5"}, {"5"}, {"5"}}},
       {{{"1", "9", "'x'"}, {"1", "9", "<|\"|>x<|\"|>"}, {"1", "9", "x"}}}},
      {R"({"oneOf":[{"type":"boolean"},{"enum":["a",2]},{"const":null}]})",
       {{{"True", "'a'", "2", "None"}, {"true", "<|\"|>a<|\"|>", "2", "null"}, {"true", "a", "2", "null"}}},
       {{{"3"}, {"3"}, {"3"}}}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":1}},"required":["k"]},)"
       R"({"type":"object","properties":{"k":{"enum":[2,3]},"n":{"type":"integer"}},"required":["k"]}]})",
       {{{"{'k': 1}", "{'k': 3, 'n': 4}"},
         {"{k:1}", "{k:3,n:4}"},
         {"]<]minimax[>[<k>1]<]minimax[>[</k>", "]<]minimax[>[<k>2]<]minimax[>[</k>"}}},
       {{{"{'k': 1, 'n': 4}"}, {"{k:1,n:4}"}, {"]<]minimax[>[<k>4]<]minimax[>[</k>"}}}},
      {R"({"const":true})", {{{"True"}, {"true"}, {"true"}}}, {{{"False"}, {"false"}, {"false"}}}},
      {R"({"anyOf":[{"type":"string"},{"type":"null"}]})",
       {{{"'x'", "None"}, {"<|\"|>x<|\"|>", "null"}, {"x", "null"}}},
       {{{"3"}, {"3"}, {"]<]minimax[>[<b>"}}}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":2})",
       {{{"[1]", "[1, 2]"}, {"[1]", "[1,2]"}, {"]<]minimax[>[<item>1]<]minimax[>[</item>"}}},
       {{{"[]", "[1, 2, 3]", "['x']"}, {"[]", "[1,2,3]"}, {"", "1"}}}},
      {R"({"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"boolean"}},"required":["y"]})",
       {{{R"({"x": 1, "y": True})", "{'y': False}"},
         {"{x:1,y:true}", "{y:false}"},
         {"]<]minimax[>[<x>1]<]minimax[>[</x>]<]minimax[>[<y>true]<]minimax[>[</y>"}}},
       {{{"{}", "{'x': 1}", "{'y': True, 'x': 1}"},
         {"{}", "{x:1}", "{y:1}"},
         {"", "]<]minimax[>[<x>1]<]minimax[>[</x>"}}}},
  };
  for (std::size_t i = 0; i < notations.size(); ++i) {
    const AnswerFormat format = {&named(notations[i].name), nullptr};
    for (const Value& value : values) {
      const auto schema =
          std::string(R"({"type":"object","properties":{"a":)") + value.schema + R"(},"required":["a"]})";
      const CallTerms held = terms(schema);
      const Grammar grammar = grammar_of(format, Thinking::none, held);
      for (const std::string& right : value.right[i]) {
        const std::string call = notations[i].call(right);
        EXPECT_TRUE(allows(grammar, call)) << notations[i].name << value.schema << right;
        const auto reader = PartReader::open(format, {Thinking::none, true, text_arguments(held.tools)});
        auto parts = reader->push(call);
        for (const AnswerPart& part : reader->finish()) parts.push_back(part);
        ASSERT_EQ(parts.size(), 2U) << call;
        const Json arguments = Json::parse(parts[1].text, "arguments");
        EXPECT_TRUE(arguments.has("a")) << call << parts[1].text;
      }
      for (const std::string& wrong : value.wrong[i]) {
        EXPECT_FALSE(allows(grammar, notations[i].call(wrong))) << notations[i].name << value.schema << wrong;
      }
    }
    for (const auto& [schema, word] : std::initializer_list<std::pair<const char*, const char*>>{
             {R"({"type":"string","pattern":"x"})", "pattern"},
             {R"({"$ref":"#/$defs/a"})", "$ref"},
             {R"({"type":"object","additionalProperties":{"type":"string"}})", "additionalProperties"},
             {R"({"type":"array","uniqueItems":true})", "uniqueItems"},
             {R"({"type":"string","const":5})", "properties.a: allows no value"},
             {R"({"enum":["a"],"minLength":2})", "properties.a: allows no value"},
             {R"({"enum":["a"],"unevaluatedProperties":false})", "unevaluatedProperties"},
             {R"({"oneOf":[{"const":true},{"type":"boolean"}]})", "oneOf"},
             {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "oneOf"},
             {R"({"oneOf":[{"anyOf":[{"const":1}]},{"type":"integer"}]})", "oneOf"},
             {R"({"oneOf":[{"enum":["a","b"]},{"enum":["b","c"]}]})", "oneOf"},
             {R"({"oneOf":[{"properties":{"x":{"type":"integer"}}},{"type":"string"}]})", "oneOf"},
             {R"({"oneOf":[{"type":"object","properties":{"k":{"const":1}}},)"
              R"({"type":"object","properties":{"k":{"const":2}}}]})",
              "oneOf"},
             {R"({"oneOf":[{"enum":["12:00:00Z","23:59:60Z"],"format":"time"},{"const":"23:59:60Z"}]})", "format"},
             {R"({"type":"object","properties":{"a b":{}}})", "'a b'"}}) {
      const auto whole = std::string(R"({"type":"object","properties":{"a":)") + schema + "}}";
      try {
        answer_gbnf(format, Thinking::none, terms(whole), {}, tokenizer());
        ADD_FAILURE() << schema;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("tool 'f'"), HasSubstr(word)));
      }
    }
  }
  std::string deep = R"({"type":"integer"})";
  for (int i = 0; i < 50; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  const auto gbnf = answer_gbnf({&named("LFM2"), nullptr}, Thinking::none,
                                terms(R"({"type":"object","properties":{"a":)" + deep + "}}"), {}, tokenizer());
  EXPECT_LT(gbnf.value_or("").size(), 20000U) << "each array is one rule";
  const char* const unsupported = R"({"type":"object","properties":{"a":{"pattern":"x"}}})";
  EXPECT_TRUE(allows(grammar_of({&named("LFM2"), nullptr}, Thinking::none, terms(unsupported, false)),
                     notations[0].call("['x', {'y': None}]")));
  EXPECT_TRUE(allows(grammar_of({&named("Gemma 4"), nullptr}, Thinking::none, terms(unsupported, false)),
                     notations[1].call("[<|\"|>x<|\"|>,{y:null}]")));
}

TEST(AnswerGrammar, ContentStandsBetweenItsMarks) {
  const std::string content = "root ::= \"{}\"";
  const AnswerFormat functionary = {&named("Functionary 3.2"), nullptr};
  const Grammar all = grammar_of(functionary, Thinking::none, {}, content);
  EXPECT_TRUE(allows(all, "all\n{}"));
  EXPECT_FALSE(allows(all, "{}"));
  const Grammar strict = grammar_of(functionary, Thinking::none, weather(CallChoice::free, true));
  EXPECT_TRUE(allows(strict, "all\nIt is warm."));
  EXPECT_TRUE(allows(strict, "all\nI ask.>>>now\n{}"));
  EXPECT_TRUE(allows(strict, "now\n{}>>>all\nIt is warm."));
  EXPECT_FALSE(allows(strict, "then\n{}"));
  const AnswerFormat solar = {&named("Solar Open"), nullptr};
  const Grammar framed = grammar_of(solar, Thinking::none, weather(CallChoice::free, true));
  EXPECT_TRUE(allows(framed, "<|content|>It is warm.<|end|>"));
  EXPECT_TRUE(allows(grammar_of(solar, Thinking::none, {}, content), "<|content|>{}"));
}

/// Arguments between marks.
TEST(AnswerGrammar, ArgumentsOfTheirOwnAreHeldToTheirSchemasOrRefused) {
  const AnswerFormat format = {&named("Qwen3-Coder"), nullptr};
  const auto terms = [](const std::string& schema, bool strict) {
    return CallTerms{{{"f", Json::parse(schema, "schema"), strict}}, CallChoice::forced, true};
  };
  const auto call = [](const std::string& value) {
    return "<tool_call>\n<function=f>\n<parameter=a>\n" + value + "\n</parameter>\n</function>\n</tool_call>";
  };
  const Grammar referenced =
      grammar_of(format, Thinking::none,
                 terms(R"({"type":"object","properties":{"a":{"$ref":"#/$defs/p"}},"required":["a"],)"
                       R"("$defs":{"p":{"type":"integer"}}})",
                       true));
  EXPECT_TRUE(allows(referenced, call("12")));
  EXPECT_FALSE(allows(referenced, call("x")));
  const Grammar chosen = grammar_of(
      format, Thinking::none,
      terms(R"({"type":"object","properties":{"a":{"type":"string","enum":["ok"]}},"required":["a"]})", true));
  EXPECT_TRUE(allows(chosen, call("ok")));
  EXPECT_FALSE(allows(chosen, call("\n ok")));
  for (const char* const schema :
       {R"({"$ref":"#/$defs/p","$defs":{"p":{"type":"object"}}})", R"({"type":"object","required":["z"]})",
        R"({"type":"object","properties":{"a":{"type":"string","pattern":"x"}}})",
        R"({"type":"object","properties":{"a":{"type":"string","enum":["a",null]}}})"}) {
    EXPECT_THROW(answer_gbnf(format, Thinking::none, terms(schema, true), {}, tokenizer()), Error) << schema;
    EXPECT_TRUE(allows(grammar_of(format, Thinking::none, terms(schema, false)), call("anything"))) << schema;
  }
}

TEST(AnswerGrammar, AStrictCallOfLlamaIsNotPassedByWithABlank) {
  const Grammar grammar = grammar_of({&named("Llama 3"), nullptr}, Thinking::none, weather(CallChoice::free, true));
  EXPECT_TRUE(allows(grammar, "\n It is warm."));
  EXPECT_TRUE(allows(grammar, "\n{\"name\": \"now\", \"parameters\": {}}"));
  EXPECT_FALSE(allows(grammar, "\n{\"name\": \"other\", \"parameters\": {}}"));
}

TEST(AnswerGrammar, SpecialTokensAmongMarksAreTokens) {
  const Token special = tokenizer().find("<|im_start|>");
  ASSERT_TRUE(tokenizer().is_special(special));
  CallFormat calls = named("Hermes");
  calls.begin = "<|im_start|>call ";
  calls.end = "<|im_start|>";
  const auto gbnf = answer_gbnf({&calls, nullptr}, Thinking::none, weather(CallChoice::free, true), {}, tokenizer());
  ASSERT_TRUE(gbnf.has_value());
  EXPECT_THAT(*gbnf, HasSubstr("<[" + std::to_string(special) + "]> \"call \""));
  const auto tokens = std::make_shared<const TokenTrie>(tokenizer(), tokenizer().vocabulary());
  const GrammarConstraint constraint(std::make_shared<const Grammar>(Grammar::from_gbnf(*gbnf, "g")), tokens, {});
  const auto reader = constraint.reader();
  std::vector<Token> text = tokenizer().encode("Once <|im_start|>call upon", false, false);
  EXPECT_FALSE(reader->possible(text)) << "a text that spells the mark would be read as one";
  text = tokenizer().encode("Once upon", false, false);
  EXPECT_TRUE(reader->allowed(text).has(special));
  text.push_back(special);
  EXPECT_TRUE(reader->possible(text));
  EXPECT_FALSE(reader->allowed(text).has(special));
  for (const Token token : tokenizer().encode("call {\"name\": \"now\", \"arguments\": {}}", false, false)) {
    EXPECT_TRUE(reader->allowed(text).has(token));
    text.push_back(token);
  }
  EXPECT_EQ(reader->allowed(text).only(), special);
}

TEST(AnswerGrammar, ASchemaThatIsNotSupportedIsAnErrorWhereItIsDemandedElseAnyObject) {
  const AnswerFormat format = {&named("Hermes"), nullptr};
  const auto terms = [](bool strict) {
    return CallTerms{{{"f", Json::parse(R"({"type": "object", "unevaluatedProperties": false})", "schema"), strict}},
                     CallChoice::forced,
                     true};
  };
  EXPECT_TRUE(allows(grammar_of(format, Thinking::none, terms(false)),
                     "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call>"));
  try {
    answer_gbnf(format, Thinking::none, terms(true), {}, tokenizer());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("tool 'f'"), HasSubstr("unevaluatedProperties")));
  }
  EXPECT_THROW(answer_gbnf(format, Thinking::none, terms(false), "root ::= \"x\"", tokenizer()), Error);
}

}  // namespace
}  // namespace draftproof::test::answer_grammar_test
