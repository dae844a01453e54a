// SPDX-License-Identifier: MIT
#include "ref/grammar/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/grammar/grammar_states.h"
#include "tests/acceptance/numbers.h"
#include "tests/grammar/sentence.h"

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

/// `what`: a part of the error; empty: there is none.
void expect_error(const std::string& schema, const std::string& what) {
  const std::string error = error_of(schema);
  EXPECT_EQ(error.empty(), what.empty()) << error << schema.substr(0, 200);
  EXPECT_THAT(error, HasSubstr(what)) << schema.substr(0, 200);
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
      {R"({"enum":["\r\b\u0001"]})", {R"("\r\b\u0001")"}, {R"("\u000d\b\u0001")"}},
      {R"({"type":"string","pattern":"^[\\r\\u0001]$"})", {R"("\r")", R"("\u0001")"}, {R"("\u000d")"}},
      {R"({"anyOf":[{"type":"string","maxLength":2},{"type":"null"}]})",
       {R"("")", R"("ab")", "null", R"("\n\u00e4")"},
       {R"("abc")", "1", R"("\u12")", "\"\n\""}},
      {R"({"$defs":{"tree":{"type":"object","properties":{"l":{"$ref":"#/$defs/tree"},"v":{"type":"number"}}}},
           "$ref":"#/$defs/tree"})",
       {"{}", R"({"l":{"l":{"v":-1.5e10}},"v":0})"},
       {R"({"l":1})", R"({"v":{}})"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"boolean"}})",
       {"[]", "[1]", R"([1,"a"])", R"([1,"a",true,false])"},
       {R"(["a"])", R"([1,"a",1])"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"}})", {"{}", R"({"x":1,"y":2})"}, {R"({"x":"1"})"}},
      {R"({"type":"string","format":"date"})", {R"("2026-11-25")"}, {R"("2026-13-01")", R"("2026-11-40")"}},
      {R"({"type":"string","format":"date-time"})", {R"("2026-11-25T10:00:00Z")"}, {R"("2026-11-25")"}},
      {R"({"type":"string","format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123")"}},
      {R"({"type":["integer","null"]})", {"5", "null"}, {"true"}},
      {R"({})", {"1", "{}", R"([{"a":[]}])"}, {"", "tru"}},
      {R"({"type":"object","required":["k"]})", {R"({"k":[1]})"}, {"{}"}},
      {R"({"type":"string","pattern":"^[a-c]{2,3}(x|y)?$"})",
       {R"("ab")", R"("abcy")"},
       {R"("a")", R"("abcdx")", R"("abxy")", R"("ab"x)"}},
      {R"({"type":"string","pattern":"b"})", {R"("b")", R"("abc\n")", R"("b\u00e4")"}, {R"("ac")", R"("")"}},
      {R"({"type":"string","pattern":"^\\S\"\\\\\\d$"})", {R"("x\"\\7")"}, {R"("x\"7")", R"("x\"\\x")"}},
      {R"({"type":"string","pattern":"^(a|^b)*$|^c$d"})",
       {R"("")", R"("a")", R"("baa")"},
       {R"("ab")", R"("c")", R"("cd")"}},
      {R"({"type":"string","pattern":"^a*$","minLength":2,"maxLength":3})",
       {R"("aa")", R"("aaa")"},
       {R"("a")", R"("aaaa")"}},
      {R"({"type":"string","pattern":"^[\\u00e4\\u{1F600}]+$"})", {"\"\xC3\xA4\"", "\"\xF0\x9F\x98\x80\""}, {R"("a")"}},
      {R"({"type":"string","not":{"enum":["a","ab"]}})", {R"("b")", R"("abc")", R"("")"}, {R"("a")", R"("ab")"}},
      {R"({"type":"string","not":{"pattern":"^x|y$"}})", {R"("yx")", R"("")"}, {R"("xa")", R"("ay")"}},
      {R"({"type":"string","format":"ipv4"})", {R"("10.0.255.1")"}, {R"("10.0.256.1")", R"("1.2.3")"}},
      {R"({"type":"string","format":"date"})", {R"("2024-02-29")"}, {R"("2023-02-29")", R"("2024-04-31")"}},
      {R"({"type":"string","format":"email"})", {R"("a.b@c.example")"}, {R"("a@")", R"("a b@c.d")"}},
      {R"({"type":"string","format":"uri"})", {R"("https://a.b/c?d#e")"}, {R"("a b:c")", R"("/c")"}},
      {R"({"type":"string","format":"anything"})", {R"("x y")"}, {"1"}},
      {R"({"type":"number","minimum":-0.5,"exclusiveMaximum":12.25})",
       {"-0.5", "-0.49", "0", "12", "12.2499", "3.0"},
       {"-0.51", "12.25", "12.3", "13", "100", "-1", "1e1", "-0", "012"}},
      {R"({"type":"number","exclusiveMinimum":0})", {"0.1", "1"}, {"0", "0.0", "-1"}},
      {R"({"type":"number","exclusiveMaximum":0})", {"-0.1", "-1"}, {"0", "-0", "-0.0", "1"}},
      {R"({"type":"number","minimum":5,"exclusiveMinimum":true})", {"5.01"}, {"5", "5.0"}},
      {R"({"type":"integer","multipleOf":7,"minimum":-20})", {"0", "-14", "7", "70", "707"}, {"1", "-21", "15", "6"}},
      {R"({"type":"number","multipleOf":0.25})", {"0.25", "-1.5", "3", "10.750"}, {"0.2", "0.255", "1.1"}},
      {R"({"type":["number","null"],"not":{"type":"integer"}})", {"0.5", "-12.25", "null"}, {"5", "5.0", "-0"}},
      {R"({"type":"integer","not":{"const":5}})", {"4", "55", "-5"}, {"5"}},
      {R"({"type":"string","nullable":true})", {"null", R"("a")"}, {"1"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}}},
                    {"properties":{"a":{"maximum":9},"b":{"type":"null"}},"required":["b"]}]})",
       {R"({"a":9,"b":null})", R"({"b":null})"},
       {R"({"a":10,"b":null})", R"({"a":9})"}},
      {R"({"type":"object","properties":{"x":{"type":"integer"}},"anyOf":[{"required":["x"]},{"required":["y"]}]})",
       {R"({"x":1})", R"({"y":[]})", R"({"x":1,"y":2})"},
       {"{}", R"({"x":"a"})"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"1", R"("a")"}, {"null"}},
      {R"({"oneOf":[{"type":"array","items":{"type":"integer"}},{"type":"array","items":{"enum":[1,null]}}]})",
       {"[2]", "[1,2]", "[null]", "[1,null,1]"},
       {"[]", "[1]", "[1,1]", "[2,null]"}},
      {R"({"oneOf":[{"type":"integer","minimum":3},{"type":"integer","maximum":5}]})", {"2", "6"}, {"3", "4", "5"}},
      {R"({"type":"object","required":["k"],"properties":{"k":{"enum":["p","q"]}},
           "oneOf":[{"properties":{"k":{"const":"p"},"n":{"type":"null"}},"required":["n"]},
                    {"properties":{"k":{"const":"q"}}}]})",
       {R"({"k":"p","n":null})", R"({"k":"q"})"},
       {R"({"k":"p"})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},
           "oneOf":[{"required":["a"]},{"required":["b"]}]})",
       {R"({"a":1})", R"({"b":1})"},
       {"{}", R"({"a":1,"b":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"integer"}},"required":["a"],
           "if":{"properties":{"a":{"const":true}}},"then":{"required":["b"]},"else":{"properties":{"b":false}}})",
       {R"({"a":true,"b":1})", R"({"a":false})"},
       {R"({"a":true})", R"({"a":false,"b":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"dependentRequired":{"a":["b"]}})",
       {"{}", R"({"b":null})", R"({"a":null,"b":null})"},
       {R"({"a":null})"}},
      {R"({"type":"object","patternProperties":{"^n":{"type":"integer"},"s$":{"minimum":5}},
           "additionalProperties":false})",
       {"{}", R"({"n":1})", R"({"ns":5,"n":2})"},
       {R"({"n":"a"})", R"({"ns":4})", R"({"x":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"null"}})",
       {R"({"a":1,"b":null,"ab":null})", R"({"b":null})", "{}"},
       {R"({"a":null})", R"({"b":1})", R"({"b":null,"a":null})"}},
      {R"({"type":"object","propertyNames":{"pattern":"^[a-z]+$"},"additionalProperties":{"type":"null"},
           "maxProperties":2})",
       {"{}", R"({"a":null,"b":null})"},
       {R"({"A":null})", R"({"a":null,"b":null,"c":null})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},
           "minProperties":1,"maxProperties":2})",
       {R"({"a":null})", R"({"b":null,"c":null})", R"({"a":null,"c":null})"},
       {"{}", R"({"a":null,"b":null,"c":null})"}},
      {R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":1})",
       {R"(["a"])", R"(["c","a"])", R"(["b", "c", "a"])"},
       {"[]", R"(["a","a"])", R"(["a","b","a"])"}},
      {R"({"type":"array","contains":{"const":7},"items":{"type":"integer"}})",
       {"[7]", "[1,7,2]", "[7,7]"},
       {"[]", "[1]", R"([7,"a"])"}},
      {R"({"type":"array","items":[{"type":"integer"},{"type":"null"}],"additionalItems":false})",
       {"[]", "[1]", "[1,null]"},
       {"[null]", "[1,null,2]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"null"}],"minItems":1,"maxItems":3})",
       {"[1]", "[1,null,{}]"},
       {"[]", "[1,null,1,1]"}},
      {R"({"enum":["a",1,{"x":2},[3]],"type":["object","integer"]})", {"1", R"({"x": 2})"}, {R"("a")", "[3]"}},
      {R"({"const":null})", {"null"}, {"0"}},
      {R"({"oneOf":[{"const":1},{"type":"integer","minimum":0,"maximum":2}]})", {"0", "2"}, {"1"}},
      {R"({"oneOf":[{"const":null},{"type":"null"},{"type":"boolean"}]})", {"true"}, {"null"}},
      {R"({"oneOf":[{"enum":["a","b"]},{"type":"string","pattern":"^[a-c]$"}]})", {R"("c")"}, {R"("a")", R"("b")"}},
      {R"({"type":"object","properties":{"x":{"oneOf":[{"enum":[1,5]},{"type":"integer","maximum":3,"minimum":0}]}}})",
       {R"({"x":5})", R"({"x":0})"},
       {R"({"x":1})"}},
      {R"({"enum":[{"x":5},{"x":[5]}],"properties":{"x":{"type":"integer"}}})", {R"({"x": 5})"}, {R"({"x": [5]})"}},
      {R"({"oneOf":[{"type":"boolean"},{"type":"null"}],"not":{"type":"boolean"}})", {"null"}, {"true"}},
      {R"({"anyOf":[{"enum":["a","b"]},{"enum":["c"]}],"not":{"pattern":"a"}})", {R"("b")", R"("c")"}, {R"("a")"}},
      {R"({"type":"number","minimum":0,"maximum":3,"not":{"enum":[1,1.5,2.25]}})",
       {"0", "2", "1.25"},
       {"1", "1.5", "2.25", "1.50"}},
      {R"({"enum":[1.5,-2e30]})", {"1.5", "-2e+30"}, {"1.50"}},
      {R"({"$id":"http://a.example/s","definitions":{"n":{"$id":"#n","type":"null"}},"type":"array",
           "items":{"anyOf":[{"$ref":"#n"},{"$ref":"http://a.example/s#/definitions/n"}]}})",
       {"[null,null]"},
       {"[1]"}},
      {R"({"type":"object","properties":{"next":{"$ref":"#"},"dead":{"$ref":"#/$defs/dead"}},
           "$defs":{"dead":{"type":"object","required":["more"],"properties":{"more":{"$ref":"#/$defs/dead"}}}}})",
       {"{}", R"({"next":{"next":{}}})"},
       {R"({"dead":{}})"}},
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
    if (value.is_null() && schema.value("nullable", false)) return true;
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

TEST(JsonSchema, EverySentenceIsJsonThatSatisfiesTheSchema) {
  Numbers numbers{3};
  int sentences = 0;
  for (const Example& example : examples()) {
    const auto mentions = [&](const char* keyword) {
      return std::string_view(example.schema).find(keyword) != std::string_view::npos;
    };
    if (mentions("patternProperties") || mentions("$id")) continue;  // `satisfies` knows neither
    const Grammar grammar = grammar_of(example.schema);
    const auto schema = nlohmann::json::parse(example.schema);
    for (int walk = 0; walk < 150; ++walk) {
      const std::string text = test::sentence(grammar, numbers);
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
  const auto pattern = [](const std::string& text) { return R"({"type":"string","pattern":")" + text + "\"}"; };
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"({"type":"object","unevaluatedProperties":false})", "'unevaluatedProperties' is not supported"},
      {R"({"type":"string","format":"regex"})", "'regex' is not supported"},
      {pattern("a(?=b)"), "field pattern: has lookaround"},
      {pattern(R"((a)\\1)"), "a reference to a group"},
      {pattern(R"(\\bx)"), "the word boundary"},
      {pattern("(?i)x"), "flags"},
      {pattern(R"(\\p{L})"), "a property of Unicode"},
      {pattern("(a"), "a ( without its )"},
      {pattern("a)"), "a ) without its ("},
      {pattern("[b-a]"), "ends before it begins"},
      {pattern("a**"), "a count of a count"},
      {R"({"type":"string","pattern":"^a$","minLength":2})", "allows nothing: the schema: no string has"},
      {R"({"type":"integer","multipleOf":1001})", "field multipleOf: has too many digits"},
      {R"({"type":"integer","multipleOf":0})", "is not above 0"},
      {R"({"type":"thing"})", "'thing' does not exist"},
      {R"({"$ref":"#/$defs/x"})", "points to nothing"},
      {R"({"$ref":"other.json"})", "does not point into the schema"},
      {R"({"allOf":[{"type":"string"},{"type":"null"}]})", "allows nothing: the schema"},
      {R"({"type":"integer","minimum":5,"maximum":4})", "its bounds allow no integer"},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1e-18})", "every number is too long"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "less than minItems"},
      {R"({"type":"array","uniqueItems":true})", "'uniqueItems' is supported for at most one item"},
      {R"({"oneOf":[{"type":"array","items":[{"type":"integer"}]},{"type":"array","items":[{"type":"null"}]}]})",
       "items: is not supported under not, if and oneOf with alternatives of which several may hold"},
      {R"({"not":{"type":"array","contains":{}}})", "contains: is not supported under not"},
      {R"({"type":"object","not":{"const":{}}})", "is excluded by not"},
      {R"({"type":"object","properties":{"a":true},"required":["a"],"additionalProperties":true,"minProperties":4})",
       "several properties without a name"},
      {R"({"additionalProperties":false,"minProperties":1})",
       "allows nothing: the schema: there can be fewer properties"},
      {R"({"required":["a","b"],"maxProperties":1})", "allows nothing: the schema: there can be fewer properties"},
      {R"({"enum":[]})", "allows nothing"},
      {R"({"const":1,"enum":[2]})", "allows nothing"},
      {R"({"enum":[{"a":5}],"properties":{"a":{"$ref":"#"}}})", "allows nothing"},
      {R"("x")", "is not a schema"},
      {R"(false)", "allows nothing"},
      {R"({"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})", "refers to itself"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "left recursion"},
      {R"({"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}})", "allows no text"},
      {R"({"properties":{"a":{"$id":"http://a.example","$ref":"#/properties/b"},"b":true}})", "an $id of its own"},
      {R"({"type":"string","maxLength":100000})", ""},
      {R"({"type":"array","items":{"type":"string","maxLength":99999},"maxItems":99999})", ""},
  };
  for (const auto& [schema, what] : rows) expect_error(schema, what);
}

TEST(JsonSchema, HostileSchemasEndWithASentence) {
  const auto many = [](int count, const auto& text) {
    std::string all;
    for (int i = 0; i < count; ++i) all += (i == 0 ? "" : ",") + text(std::to_string(i));
    return all;
  };
  const auto pattern = [](const std::string& text) { return R"({"type":"string","pattern":")" + text + "\"}"; };
  const auto next = [](const std::string& i) {
    return R"({"$ref":"#/$defs/)" + std::to_string(std::stoi(i) + 1) + "\"}";
  };
  const auto chain = [&](const std::string& before, const std::string& after) {
    return R"({"$ref":"#/$defs/0","$defs":{)" +
           many(5000, [&](const std::string& i) { return '"' + i + "\":" + before + next(i) + after; }) +
           R"(,"5000":true}})";
  };
  std::string separate;  // characters that are no neighbors
  for (char32_t c = 0x4e00; c < 0x4e00 + 2 * 3000; c += 2) utf8::append(separate, c);
  std::string nested = R"({"type":"null"})";
  for (int i = 0; i < 60; ++i) nested = R"({"not":)" + nested + "}";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {pattern("(a{1000}){1000}"), "too complex"},
      {pattern("((((a{50}){50}){50}){50}){50}"), "too complex"},
      {pattern("(a|b)*a(a|b){30}"), "too complex"},
      {pattern(std::string(1000, '(')), "nest too deep"},
      {pattern("a{100001}"), "a count above"},
      {R"({"type":"string","pattern":"a","maxLength":50000})", "too complex"},
      {R"({"allOf":[)" +
           many(14,
                [](const std::string& i) {
                  return R"({"anyOf":[{"required":["a)" + i + R"("]},{"required":["b)" + i + R"("]},{"required":["c)" +
                         i + R"("]}]})";
                }) +
           "]}",
       "too"},
      {R"({"oneOf":[)" +
           many(300, [](const std::string& i) { return R"({"properties":{"a)" + i + R"(":{"type":"null"}}})"; }) + "]}",
       "too"},
      {chain("", ""), "nests too deep"},
      {chain(R"({"type":"array","items":)", "}"), "nests too deep"},
      {nested, ""},
      {R"({"not":{"$ref":"#"}})", "left recursion"},
      {R"({"enum":[)" + many(20000, [](const std::string& i) { return "\"v" + i + '"'; }) + "]}", ""},
      {R"({"minimum":3,"enum":[)" + many(4000, [](const std::string& i) { return i; }) + "]}", ""},
      {R"({"type":"number","not":{"enum":[)" + many(2000, [](const std::string& i) { return i + ".5"; }) + "]}}",
       "too complex"},
      {pattern("[" + separate + "](?:a?){5000}$"), "too complex"},
  };
  for (const auto& [schema, what] : rows) {
    const auto begun = std::chrono::steady_clock::now();
    expect_error(schema, what);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    EXPECT_LT(taken.count(), 10) << schema.substr(0, 200);
  }
}

}  // namespace
}  // namespace draftproof::json_schema_test
