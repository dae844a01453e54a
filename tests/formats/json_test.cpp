// SPDX-License-Identifier: MIT
#include "ref/formats/json.h"

#include <limits>

#include "tests/formats/files.h"

namespace draftproof::json_test {
namespace {

constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t int64_min = std::numeric_limits<std::int64_t>::min();

TEST(Json, ReadsEveryKindOfValue) {
  const Json json =
      Json::parse(R"({"text":"größe\u0000\n","yes":true,"no":false,"list":[1,-2,3.5],"empty":{},"real":1e-3})", "here");
  EXPECT_TRUE(json.is_object());
  EXPECT_EQ(json.at("text").string(), std::string("größe\0\n", 9));
  EXPECT_TRUE(json.at("yes").boolean());
  EXPECT_FALSE(json.at("no").boolean());
  EXPECT_TRUE(json.at("no").is_boolean());
  EXPECT_TRUE(json.at("list").is_array());
  EXPECT_EQ(json.at("list").size(), 3U);
  EXPECT_TRUE(json.at("list")[2].is_number());
  EXPECT_FALSE(json.at("list")[2].is_integer());
  EXPECT_EQ(json.at("list")[1].number(), -2.0);
  EXPECT_EQ(json.at("real").number(), 1e-3);
  EXPECT_TRUE(json.at("empty").fields().empty());
}

TEST(Json, TreatsANullFieldAsMissingButReturnsANullElement) {
  const Json json = Json::parse(R"({"none":null,"list":[null]})", "here");
  EXPECT_FALSE(json.find("none"));
  EXPECT_FALSE(json.find("absent"));
  EXPECT_TRUE(json.at("list")[0].is_null());
}

TEST(Json, KeepsFieldsInFileOrderAndFindsThemAll) {
  const Json json = Json::parse(R"({"z":1,"a":2,"":3,"Z":4,"ä":5})", "here");
  const std::vector<std::string> names{"z", "a", "", "Z", "ä"};
  EXPECT_EQ(json.fields(), names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(json.at(names[i]).integer(0, 9), static_cast<std::int64_t>(i) + 1);
  }
}

TEST(Json, KeepsItsDocumentAliveThroughAnyValue) {
  const Json leaf = [] { return Json::parse(R"({"a":{"b":["deep"]}})", "here").at("a").at("b")[0]; }();
  EXPECT_EQ(leaf.string(), "deep");
  EXPECT_EQ(leaf.where(), "here: field a.b[0]");
}

TEST(Json, WritesFieldNamesThatAreNotPlainInQuotes) {
  const Json json = Json::parse(R"({"weight_map":{"model.a\n":1}})", "here");
  EXPECT_EQ(json.where(), "here");
  EXPECT_EQ(json.at("weight_map").at("model.a\n").where(), R"(here: field weight_map['model.a\x0a'])");
}

TEST(Json, AcceptsIntegralNumbersWithFractionOrExponentAsIntegers) {
  const Json json = Json::parse("[16, 16.0, 1e6, -0.0, 9007199254740991.0]", "here");
  EXPECT_EQ(json.integers(int64_min, int64_max), (std::vector<std::int64_t>{16, 16, 1000000, 0, 9007199254740991}));
}

TEST(Json, RejectsNumbersThatAreNotExactlyOneInteger) {
  const Json json = Json::parse("[16.5, 9007199254740992.0, 1e300, 18446744073709551615, \"16\", true]", "here");
  for (std::size_t i = 0; i < json.size(); ++i) {
    EXPECT_FALSE(json[i].is_integer());
    EXPECT_THROW(json[i].integer(int64_min, int64_max), Error);
  }
}

TEST(Json, ReadsTheExtremeIntegersAndHoldsThemToTheirBounds) {
  const Json json = Json::parse("[9223372036854775807, -9223372036854775808, 5]", "here");
  EXPECT_EQ(json[0].integer(0, int64_max), int64_max);
  EXPECT_EQ(json[1].integer(int64_min, 0), int64_min);
  EXPECT_EQ(json[2].integer(5, 5), 5);
  EXPECT_EQ(error_of([&] { json[2].integer(6, 9); }), "here: field [2]: must be an integer from 6 to 9, but is 5");
  EXPECT_THROW(json[2].integer(1, 4), Error);
}

TEST(Json, NamesTheFieldWhenTheTypeIsWrong) {
  const Json json = Json::parse(R"({"a":{"n":"four","o":null}})", "config.json");
  const Json a = json.at("a");
  EXPECT_EQ(error_of([&] { a.at("n").integer(0, 9); }),
            "config.json: field a.n: must be an integer from 0 to 9, but is 'four'");
  EXPECT_EQ(error_of([&] { a.at("n").number(); }), "config.json: field a.n: must be a number, but is 'four'");
  EXPECT_EQ(error_of([&] { a.at("n").boolean(); }), "config.json: field a.n: must be true or false, but is 'four'");
  EXPECT_EQ(error_of([&] { a.at("n").size(); }), "config.json: field a.n: must be an array, but is 'four'");
  EXPECT_EQ(error_of([&] { a.at("n").find("x"); }), "config.json: field a.n: must be an object, but is 'four'");
  EXPECT_EQ(error_of([&] { a.at("n").fields(); }), "config.json: field a.n: must be an object, but is 'four'");
  EXPECT_EQ(error_of([&] { a.string(); }), "config.json: field a: must be a string, but is an object");
  EXPECT_EQ(error_of([&] { a.at("x"); }), "config.json: field a.x is missing or null");
  EXPECT_EQ(error_of([&] { a.at("o"); }), "config.json: field a.o is missing or null");
  EXPECT_EQ(error_of([&] { a.fail("is odd"); }), "config.json: field a: is odd");
}

TEST(Json, RejectsAMissingElement) {
  const Json json = Json::parse("[[1]]", "here");
  EXPECT_EQ(error_of([&] { json[0][1]; }), "here: field [0]: has 1 elements, but element 1 is needed");
}

TEST(Json, NestsAtMostTwoHundredFiftySixLevels) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(Json::parse(nested(256), "here").is_array());
  EXPECT_EQ(error_of([&] { Json::parse(nested(257), "here"); }), "here: nests deeper than 256 levels");
  EXPECT_EQ(error_of([&] { Json::parse(std::string(1 << 20, '['), "here"); }), "here: nests deeper than 256 levels");
}

TEST(Json, IsNotQuadraticInTheNamesOfOneObject) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += (i ? ",\"t" : "\"t") + std::to_string(i) + "\":" + std::to_string(i);
  const Json json = Json::parse(text + "}", "here");
  EXPECT_EQ(json.at("t123456").integer(0, 200'000), 123'456);
}

TEST(Json, AcceptsAByteOrderMarkAndSpaceAround) {
  EXPECT_EQ(Json::parse("\xEF\xBB\xBF {\"a\": 1}\r\n ", "here").at("a").integer(1, 1), 1);
}

TEST(Json, ReadsAFileAndRejectsOneThatIsTooLarge) {
  const TemporaryFolder folder;
  const auto file = folder.write("config.json", R"({"a":1})");
  EXPECT_EQ(Json::read(file).at("a").where(), file.string() + ": field a");
  EXPECT_EQ(Json::read(file, 7).at("a").integer(1, 1), 1);
  EXPECT_EQ(error_of([&] { Json::read(file, 6); }), file.string() + ": 7 bytes, but at most 6 are read as JSON");
}

TEST(Json, ReadsTheInfinityOfPythonAsTheObjectOfTransformers) {
  const TemporaryFolder folder;
  folder.write("old.json", R"({"limit": [0.0, Infinity], "text": "Infinity \"Infinity", "last": Infinity})");
  const Json json = Json::read(folder.path() / "old.json");
  EXPECT_EQ(json.at("limit")[1].at("__float__").string(), "Infinity");
  EXPECT_EQ(json.at("last").at("__float__").string(), "Infinity");
  EXPECT_EQ(json.at("text").string(), "Infinity \"Infinity");
  folder.write("other.json", "[-Infinity]");
  EXPECT_THROW(Json::read(folder.path() / "other.json"), Error);
}

TEST(Json, NamesAFileThatIsMissingOrAFolder) {
  const TemporaryFolder folder;
  const auto missing = folder.path() / "config.json";
  EXPECT_EQ(error_of([&] { Json::read(missing); }), missing.string() + ": no such file");
  EXPECT_EQ(error_of([&] { Json::read(folder.path()); }), folder.path().string() + ": not a file");
}

class BadJson : public testing::TestWithParam<BadFile> {};

TEST_P(BadJson, IsRejectedByName) {
  const TemporaryFolder folder;
  const auto file = folder.write("config.json", GetParam().bytes);
  const std::string message = error_of([&] { Json::read(file); });
  EXPECT_TRUE(message.starts_with(file.string() + ": ")) << message;
  expect_words(message, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Json, BadJson,
    testing::Values(BadFile{"an_empty_file", "", {"line 1", "end of input"}},
                    BadFile{"only_space", " \n ", {"line 2", "end of input"}},
                    BadFile{"a_missing_bracket", "{\"a\": [1, 2", {"line 1, column 11", "end of input"}},
                    BadFile{"a_trailing_comma", "{\n \"a\": 1,\n}", {"line 3, column 1"}},
                    BadFile{"a_second_value", "{} {}", {"line 1, column 4"}},
                    BadFile{"a_comment", "{ // why\n}", {"line 1, column 3"}},
                    BadFile{"single_quotes", "{'a': 1}", {"line 1, column 2"}},
                    BadFile{"not_a_number", "{\"a\": NaN}", {"line 1, column 7"}},
                    BadFile{"infinity", "{\"a\": -Infinity}", {"line 1, column 8"}},
                    BadFile{"a_number_beyond_double", "{\"a\": 1e999}", {"line 1, column 11", "1e999"}},
                    BadFile{"a_leading_zero", "[01]", {"line 1, column 3"}},
                    BadFile{"bytes_that_are_not_utf8", "[\"\xFF\"]", {"line 1, column 3", "UTF-8"}},
                    BadFile{"an_overlong_utf8_form", "[\"\xC0\xAF\"]", {"UTF-8"}},
                    BadFile{"an_encoded_surrogate", "[\"\xED\xA0\x80\"]", {"UTF-8"}},
                    BadFile{"half_a_surrogate_pair", "[\"\\ud800\"]", {"line 1", "surrogate"}},
                    BadFile{"a_raw_control_character", "[\"a\nb\"]", {"control character"}},
                    BadFile{"a_nul_after_the_value", std::string("{}\0", 3), {"line 1, column 3", "NUL"}},
                    BadFile{"a_name_twice", "{\"a\": 1, \"b\": 2, \"a\": 3}", {"'a'", "twice"}},
                    BadFile{"a_name_twice_in_two_spellings", "[{\"a\": 1, \"\\u0061\": 3}]", {"'a'", "twice"}},
                    BadFile{"hostile_nesting", std::string(100'000, '['), {"256 levels"}},
                    BadFile{"hostile_nesting_of_objects", "{\"a\":" + std::string(300, '[') + "{", {"256 levels"}},
                    BadFile{"a_long_word", "[" + std::string(100'000, 'x'), {"line 1, column 2"}},
                    BadFile{"a_long_string_without_end", "[\"" + std::string(100'000, 'x'), {"missing closing quote"}},
                    BadFile{"binary", "\x80\x04\x95\x01\x8c", {"line 1, column 1"}}),
    name_of);

TEST(Json, SurvivesEveryTruncationAndSubstitutionOfAGoodText) {
  const std::string good = R"({"a":{"b":[1,-2.5e3,"x\u00e9\ud83d\ude00"],"c":null},"d":[true,false,{}],"größe":""})";
  ASSERT_NO_THROW(Json::parse(good, "here"));
  const auto try_text = [](const std::string& text) {
    try {
      const Json json = Json::parse(text, "here");
      if (json.is_object()) {
        for (const std::string& name : json.fields()) json.find(name);
      }
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("here"));
    }
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    try_text(good.substr(0, i));
    for (int byte = 0; byte < 256; ++byte) {
      std::string text = good;
      text[i] = static_cast<char>(byte);
      try_text(text);
    }
  }
}

}  // namespace
}  // namespace draftproof::json_test
