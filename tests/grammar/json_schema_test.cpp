// SPDX-License-Identifier: MIT
#include "ref/grammar/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ref/base/error.h"
#include "ref/grammar/grammar_states.h"
#include "tests/acceptance/numbers.h"

namespace draftproof::json_schema_test {
namespace {

using testing::HasSubstr;

Grammar grammar_of(const std::string& schema) {
  return Grammar::from_gbnf(schema_to_gbnf(Json::parse(schema, "the schema")), "its grammar");
}

bool allows(const Grammar& grammar, std::string_view text) {
  GrammarStates states(grammar);
  int state = states.start();
  for (const char byte : text) state = states.next(state, static_cast<unsigned char>(byte));
  return states.accepts(state);
}

std::string error_of(const std::string& schema) {
  try {
    grammar_of(schema);
  } catch (const Error& wrong) {
    return wrong.what();
  }
  return "";
}

struct Example {
  const char* schema;
  std::vector<const char*> in;
  std::vector<const char*> out;
};

const std::vector<Example>& examples() {
  static const std::vector<Example> list = {
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]})",
       {R"({"a":1})", R"({"a": 1, "b": "x"})", R"({"a":-12,"b":""})"},
       {R"({})", R"({"b":"x"})", R"({"a":1.5})", R"({"b":"x","a":1})", R"({"a":1,})", R"({"a":1,"c":2})", R"({"a":01})",
        R"({"a":1,  "b":"x"})", R"( {"a":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"boolean"},"c":{"const":7}}})",
       {"{}", R"({"a":null})", R"({"b":true})", R"({"c":7})", R"({"a":null, "c":7})", R"({"a":null,"b":false,"c":7})"},
       {R"({"c":8})", R"({,"c":7})", R"({"b":1})"}},
      {R"({"type":"array","items":{"type":"integer","minimum":3,"maximum":120},"minItems":1,"maxItems":3})",
       {"[3]", "[120, 99,10]"},
       {"[]", "[2]", "[121]", "[3,4,5,6]", "[03]", "[-3]", "[3.0]"}},
      {R"({"type":"integer","minimum":-15,"exclusiveMaximum":8})",
       {"-15", "-1", "0", "7"},
       {"-16", "8", "-0", "10", "-20", "00"}},
      {R"({"type":"integer","minimum":1000})", {"1000", "999999", "123456789012345678"}, {"999", "-1", "0"}},
      {R"({"enum":["a\"b","\u00e4",1,null,true,{"x":[1,2]}]})",
       {R"("a\"b")", "\"\xC3\xA4\"", "1", "null", "true", R"({"x": [1, 2]})"},
       {"2", "\"a\"", "false"}},
      {R"({"anyOf":[{"type":"string","maxLength":2},{"type":"null"}]})",
       {R"("")", R"("ab")", "null", R"("\n\u00e4")"},
       {R"("abc")", "1", R"("\u12")", "\"\n\""}},
      {R"({"$defs":{"tree":{"type":"object","properties":{"l":{"$ref":"#/$defs/tree"},"v":{"type":"number"}}}},
           "$ref":"#/$defs/tree"})",
       {"{}", R"({"l":{"l":{"v":-1.5e10}},"v":0})"},
       {R"({"l":1})", R"({"v":{}})"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"boolean"}})",
       {R"([1,"a"])", R"([1,"a",true,false])"},
       {R"([1])", R"([1,"a",1])"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"}})", {"{}", R"({"x":1,"y":2})"}, {R"({"x":"1"})"}},
      {R"({"type":"string","format":"date"})", {R"("2026-11-25")"}, {R"("2026-13-01")", R"("2026-11-40")"}},
      {R"({"type":"string","format":"date-time"})", {R"("2026-11-25T10:00:00Z")"}, {R"("2026-11-25")"}},
      {R"({"type":"string","format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123")"}},
      {R"({"type":["integer","null"]})", {"5", "null"}, {"true"}},
      {R"({})", {"1", "{}", R"([{"a":[]}])"}, {"", "tru"}},
      {R"({"type":"object","required":["k"]})", {R"({"k":[1]})"}, {"{}"}},
  };
  return list;
}

TEST(JsonSchema, AllowsAndRefusesDocuments) {
  for (const Example& example : examples()) {
    const Grammar grammar = grammar_of(example.schema);
    for (const char* const text : example.in) EXPECT_TRUE(allows(grammar, text)) << example.schema << " " << text;
    for (const char* const text : example.out) EXPECT_FALSE(allows(grammar, text)) << example.schema << " " << text;
  }
}

TEST(JsonSchema, ARangeOfIntegersIsExactlyThat) {
  const auto check = [](int low, int high) {
    const Grammar grammar = grammar_of(R"({"type":"integer","minimum":)" + std::to_string(low) + R"(,"maximum":)" +
                                       std::to_string(high) + "}");
    GrammarStates states(grammar);
    for (int number = -1300; number <= 1300; ++number) {
      int state = states.start();
      for (const char byte : std::to_string(number)) state = states.next(state, static_cast<unsigned char>(byte));
      ASSERT_EQ(states.accepts(state), number >= low && number <= high) << low << " to " << high << ": " << number;
    }
  };
  for (const int low : {-1234, -1000, -999, -101, -100, -10, -9, -1, 0, 1, 7, 9, 10, 42, 99, 100, 555, 999, 1000}) {
    for (const int high : {-1000, -99, -10, -1, 0, 1, 5, 9, 10, 11, 19, 20, 77, 100, 109, 110, 999, 1000, 1299}) {
      if (low <= high) check(low, high);
    }
  }
}

/// Whether a document satisfies a schema, of the keywords that the examples have.
bool satisfies(const nlohmann::json& schema, const nlohmann::json& value, const nlohmann::json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    return satisfies(root.at(nlohmann::json::json_pointer(schema["$ref"].get<std::string>().substr(1))), value, root);
  }
  if (schema.contains("const") && value != schema["const"]) return false;
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end()) return false;
  if (schema.contains("anyOf")) {
    return std::ranges::any_of(schema["anyOf"], [&](const auto& one) { return satisfies(one, value, root); });
  }
  const auto is = [&](const std::string& type) {
    return type == "object"    ? value.is_object()
           : type == "array"   ? value.is_array()
           : type == "string"  ? value.is_string()
           : type == "integer" ? value.is_number_integer()
           : type == "number"  ? value.is_number()
           : type == "boolean" ? value.is_boolean()
                               : value.is_null();
  };
  if (schema.contains("type")) {
    const auto& type = schema["type"];
    if (type.is_string() && !is(type)) return false;
    if (type.is_array() && std::ranges::none_of(type, [&](const auto& one) { return is(one); })) return false;
  }
  if (value.is_number_integer()) {
    if (schema.contains("minimum") && value < schema["minimum"]) return false;
    if (schema.contains("maximum") && value > schema["maximum"]) return false;
    if (schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"]) return false;
  }
  if (value.is_object()) {
    for (const auto& name : schema.value("required", nlohmann::json::array())) {
      if (!value.contains(name.get<std::string>())) return false;
    }
    for (const auto& [name, member] : value.items()) {
      if (schema.contains("properties") && schema["properties"].contains(name)) {
        if (!satisfies(schema["properties"][name], member, root)) return false;
      } else if (schema.contains("additionalProperties")) {
        if (!satisfies(schema["additionalProperties"], member, root)) return false;
      }
    }
  }
  if (value.is_array()) {
    if (schema.contains("minItems") && value.size() < schema["minItems"]) return false;
    if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return false;
    const std::size_t prefix = schema.value("prefixItems", nlohmann::json::array()).size();
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i < prefix && !satisfies(schema["prefixItems"][i], value[i], root)) return false;
      if (i >= prefix && schema.contains("items") && !satisfies(schema["items"], value[i], root)) return false;
    }
  }
  if (value.is_string() && schema.contains("maxLength")) {
    std::size_t characters = 0;
    for (const char c : value.get<std::string>()) characters += (c & 0xC0) != 0x80;
    if (characters > schema["maxLength"]) return false;
  }
  return true;
}

/// A sentence, by a random walk; empty when it has not come to an end.
std::string sentence(const Grammar& grammar, Numbers& numbers) {
  GrammarStates states(grammar);
  int state = states.start();
  std::string text;
  while (text.size() < 400) {
    if (states.complete(state) || (states.accepts(state) && numbers.next() % 3 == 0)) return text;
    std::vector<unsigned char> bytes;
    for (int byte = 0; byte < 256; ++byte) {
      if (states.next(state, static_cast<unsigned char>(byte)) != GrammarStates::dead) {
        bytes.push_back(static_cast<unsigned char>(byte));
      }
    }
    EXPECT_FALSE(bytes.empty()) << text;
    if (bytes.empty()) return "";
    unsigned char byte = bytes[numbers.next() % bytes.size()];
    for (const char ends : std::string_view("\"}]")) {  // most walks should end
      const bool can = std::ranges::find(bytes, static_cast<unsigned char>(ends)) != bytes.end();
      if (can && numbers.next() % 3 == 0) byte = static_cast<unsigned char>(ends);
    }
    text += static_cast<char>(byte);
    state = states.next(state, byte);
  }
  return "";
}

TEST(JsonSchema, EverySentenceIsJsonThatSatisfiesTheSchema) {
  Numbers numbers{3};
  int sentences = 0;
  for (const Example& example : examples()) {
    const Grammar grammar = grammar_of(example.schema);
    const auto schema = nlohmann::json::parse(example.schema);
    for (int walk = 0; walk < 150; ++walk) {
      const std::string text = sentence(grammar, numbers);
      if (text.empty()) continue;
      ++sentences;
      const auto value = nlohmann::json::parse(text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << example.schema << " " << text;
      EXPECT_TRUE(satisfies(schema, value, schema)) << example.schema << " " << text;
    }
  }
  EXPECT_GT(sentences, 1500);
  const auto first = nlohmann::json::parse(examples().front().schema);  // the validator can say no
  EXPECT_FALSE(satisfies(first, nlohmann::json::parse(R"({"b":"x"})"), first));
}

TEST(JsonSchema, AnyObjectIsAnObject) {
  const Grammar grammar = Grammar::from_gbnf(json_object_gbnf(), "");
  for (const char* const text : {"{}", R"({"a":[1,2.5e-3,{"b":null}]})", R"({"\ud83d\ude00": "x"})"}) {
    EXPECT_TRUE(allows(grammar, text)) << text;
  }
  for (const char* const text : {"[]", "1", "{", R"({"\ud83d": 1})", R"({"a":.5})", R"({a:1})"}) {
    EXPECT_FALSE(allows(grammar, text)) << text;
  }
}

TEST(JsonSchema, WhatIsNotSupportedIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"({"type":"object","patternProperties":{}})", "'patternProperties' is not supported"},
      {R"({"type":"string","pattern":"a+"})", "'pattern' is not supported"},
      {R"({"type":"string","format":"email"})", "'email' is not supported"},
      {R"({"type":"number","minimum":1})", "field minimum: is supported for integers only"},
      {R"({"type":"object","properties":{"a":{"type":"integer","multipleOf":3}}})",
       "field properties.a: the keyword 'multipleOf'"},
      {R"({"type":"thing"})", "'thing' does not exist"},
      {R"({"$ref":"#/$defs/x"})", "points to nothing"},
      {R"({"$ref":"other.json"})", "does not point into the schema"},
      {R"({"allOf":[{"type":"string"},{"maxLength":3}]})", "one schema only"},
      {R"({"anyOf":[{"type":"string"}],"properties":{}})", "beside properties"},
      {R"({"type":"integer","minimum":5,"maximum":4})", "allow no integer"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "less than minItems"},
      {R"({"enum":[]})", "allows nothing"},
      {R"({"enum":[1.5]})", "with a point"},
      {R"("x")", "is not a schema"},
      {R"(false)", "allows nothing"},
      {R"({"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})", "left recursion"},
      {R"({"type":"string","maxLength":100000})", ""},
      {R"({"type":"array","items":{"type":"string","maxLength":99999},"maxItems":99999})", "too large"},
  };
  for (const auto& [schema, what] : rows) EXPECT_THAT(error_of(schema), HasSubstr(what)) << schema;
}

}  // namespace
}  // namespace draftproof::json_schema_test
