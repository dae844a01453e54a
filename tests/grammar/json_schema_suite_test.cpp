// SPDX-License-Identifier: MIT
// Schemas as grammars against the official tests of JSON Schema.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "ref/grammar/grammar_states.h"
#include "ref/grammar/json_schema.h"
#include "ref/grammar/schema_reader.h"
#include "tests/grammar/sentence.h"

namespace draftproof::json_schema_suite_test {
namespace {

const std::filesystem::path folder =
    std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external/json-schema-suite";

/// The texts of a value, one for each order of its properties; of large values some of them.
std::vector<std::string> texts_of(const Json& value) {
  constexpr std::size_t texts_max = 200;
  if (value.is_array()) {
    std::vector<std::string> texts = {"["};
    for (std::size_t i = 0; i < value.size(); ++i) {
      std::vector<std::string> longer;
      for (const std::string& item : texts_of(value[i])) {
        for (const std::string& text : texts) longer.push_back(text + (i == 0 ? "" : ", ") + item);
      }
      longer.resize(std::min(longer.size(), texts_max));
      texts = longer;
    }
    for (std::string& text : texts) text += "]";
    return texts;
  }
  if (!value.is_object()) return {value.is_string() ? json_string(value.string()) : value.text()};
  std::vector<std::string> names = value.fields();
  std::ranges::sort(names);
  std::vector<std::string> all;
  do {
    std::vector<std::string> texts = {"{"};
    for (const std::string& name : names) {
      std::vector<std::string> longer;
      for (const std::string& member : texts_of(*value.member(name))) {
        for (const std::string& text : texts) {
          longer.push_back(text + (text == "{" ? "" : ", ") + json_string(name) + ": " + member);
        }
      }
      longer.resize(std::min(longer.size(), texts_max));
      texts = longer;
    }
    for (const std::string& text : texts) all.push_back(text + "}");
  } while (all.size() < texts_max && std::ranges::next_permutation(names).found);
  return all;
}

bool allows(GrammarStates& states, std::string_view text) {
  int state = states.start();
  for (const char byte : text) state = states.next(state, static_cast<unsigned char>(byte));
  return states.accepts(state);
}

struct Counts {
  int schemas = 0;
  int refused = 0;  // schemas, by name
  int valid = 0;
  int narrower = 0;  // valid documents that are not allowed
  int invalid = 0;
  int wider = 0;  // other documents that are allowed
};

Counts counts_of(const std::string& draft) {
  Counts counts;
  const Json groups = Json::read(folder / (draft + ".json"));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Json group = groups[i];
    const std::string name = draft + " " + group.at("name").string();
    ++counts.schemas;
    std::optional<Grammar> grammar;
    try {
      grammar = Grammar::from_gbnf(schema_to_gbnf(*group.member("schema")), name);
    } catch (const Error&) {
      ++counts.refused;
      continue;
    }
    GrammarStates states(*grammar);
    const Json tests = group.at("tests");
    for (std::size_t j = 0; j < tests.size(); ++j) {
      const Json data = *tests[j].member("data");
      const bool allowed =
          std::ranges::any_of(texts_of(data), [&](const std::string& text) { return allows(states, text); });
      const bool valid = tests[j].at("valid").boolean();
      ++(valid ? counts.valid : counts.invalid);
      if (allowed == valid) continue;
      ++(valid ? counts.narrower : counts.wider);
      EXPECT_TRUE(valid) << name << ": " << data.text() << " is allowed";
    }
  }
  return counts;
}

/// What is refused or narrower here is what json_schema.h says, for the larger part schemas without a type and
/// documents of another one; no more of either should come.
TEST(JsonSchemaSuite, NoDocumentIsAllowedThatDoesNotSatisfyItsSchema) {
  struct Expected {
    const char* draft;
    int schemas;
    int refused;
    int narrower;
  };
  for (const auto& [draft, schemas, refused, narrower] :
       {Expected{"draft4", 189, 24, 151}, Expected{"draft7", 305, 51, 355}, Expected{"draft2020-12", 433, 164, 406}}) {
    const Counts counts = counts_of(draft);
    EXPECT_EQ(counts.schemas, schemas);
    EXPECT_EQ(counts.wider, 0);
    EXPECT_LE(counts.refused, refused);
    EXPECT_LE(counts.narrower, narrower);
    std::cout << "[ figures  ] " << draft << ": of " << counts.schemas << " schemas " << counts.refused
              << " are refused; of " << counts.valid << " valid documents " << counts.narrower
              << " are not allowed; of " << counts.invalid << " others " << counts.wider << " are\n";
  }
}

constexpr const char* drafts[] = {"draft4", "draft7", "draft2020-12"};

/// The values of enum and const are those that SchemaReader says satisfy what else a schema says.
TEST(JsonSchemaSuite, SchemaReaderJudgesDocumentsAsTheSuiteDoes) {
  int judged = 0;
  int stricter = 0;
  for (const char* const draft : drafts) {
    const Json groups = Json::read(folder / (std::string(draft) + ".json"));
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const Json schema = *groups[i].member("schema");
      const Json tests = groups[i].at("tests");
      for (std::size_t j = 0; j < tests.size(); ++j) {
        const Json data = *tests[j].member("data");
        bool satisfied = false;
        try {
          satisfied = SchemaReader(schema).satisfies(schema, data);
        } catch (const Error&) {
          continue;  // what is not supported
        }
        ++judged;
        const bool valid = tests[j].at("valid").boolean();
        if (satisfied != valid) ++stricter;
        EXPECT_TRUE(valid || !satisfied) << draft << " " << groups[i].at("name").string() << ": " << data.text();
      }
    }
  }
  EXPECT_GT(judged, 2500);
  EXPECT_LE(stricter, 198) << "rare forms of formats are left out, and formats are assertions here";
}

TEST(JsonSchemaSuite, RandomSentencesSatisfyTheirSchemas) {
  Numbers numbers{11};
  int sentences = 0;
  for (const char* const draft : drafts) {
    const Json groups = Json::read(folder / (std::string(draft) + ".json"));
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const Json schema = *groups[i].member("schema");
      std::optional<Grammar> grammar;
      try {
        grammar = Grammar::from_gbnf(schema_to_gbnf(schema), draft);
      } catch (const Error&) {
        continue;
      }
      for (int walk = 0; walk < 8; ++walk) {
        const std::string text = test::sentence(*grammar, numbers);
        if (text.empty()) continue;
        try {
          const Json value = Json::parse(text, "a sentence");
          ++sentences;
          EXPECT_TRUE(SchemaReader(schema).satisfies(schema, value))
              << draft << " " << groups[i].at("name").string() << ": " << text;
        } catch (const Error& wrong) {
          // Two properties that no schema names may have the same name, and exponents make numbers long.
          EXPECT_THAT(wrong.what(), testing::AnyOf(testing::HasSubstr("occurs twice"), testing::HasSubstr("digits")))
              << text;
        }
      }
    }
  }
  EXPECT_GT(sentences, 3000);
}

}  // namespace
}  // namespace draftproof::json_schema_suite_test
