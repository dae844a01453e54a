// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/report/samples.h"

namespace draftproof::test::json_test {
namespace {

using nlohmann::json;

/// Paths of all keys, as docs/report.md writes them: checks[].failure.run, about.*.
void collect(const json& value, const std::string& path, std::map<std::string, std::set<std::string>>& types) {
  if (!path.empty() && !path.ends_with("[]")) {
    const std::string type = value.is_number() ? "number" : value.type_name();
    types[path].insert(type);
  }
  if (value.is_object()) {
    const bool named_by_us = path != "about" && path != "examined";
    for (const auto& [key, inside] : value.items()) {
      collect(inside, (path.empty() ? "" : path + ".") + (named_by_us ? key : "*"), types);
    }
  }
  if (value.is_array()) {
    for (const json& inside : value) collect(inside, path + "[]", types);
  }
}

/// The table of the schema: key to type, "number or string" being two.
std::map<std::string, std::set<std::string>> documented() {
  std::ifstream file(DRAFTPROOF_SOURCE_DIR "/docs/report.md");
  std::map<std::string, std::set<std::string>> types;
  const std::regex row(R"(\| `([^`]+)` \| ([a-z ]+) \| .+ \|)");
  for (std::string line; std::getline(file, line);) {
    std::smatch found;
    if (!std::regex_match(line, found, row)) continue;
    std::istringstream words(found[2]);
    for (std::string word; words >> word;) {
      if (word != "or" && word != "of") types[found[1]].insert(word);
    }
  }
  return types;
}

TEST(ReportJson, HasTheKeysOfTheDocumentAndNoOthers) {
  std::map<std::string, std::set<std::string>> found;
  collect(json::parse(report_json(full_report())), "", found);
  const auto table = documented();
  for (const auto& [key, types] : found) {
    ASSERT_TRUE(table.contains(key)) << key << " is not in the table of docs/report.md";
    for (const std::string& type : types) EXPECT_TRUE(table.at(key).contains(type)) << key << " is a " << type;
  }
  for (const auto& [key, types] : table) EXPECT_TRUE(found.contains(key)) << key << " is in the table only";
  EXPECT_GT(table.size(), 50U) << "the table was not read";
}

TEST(ReportJson, HasTheValuesOfTheReport) {
  const Report report = full_report();
  const json written = json::parse(report_json(report));
  EXPECT_EQ(written["schema"], "draftproof-report/2");
  EXPECT_EQ(written["verdict"], "BUG_PROVEN");
  EXPECT_EQ(written["about"]["rule"], "matching");
  EXPECT_EQ(written["examined"]["rounds"], 12);
  ASSERT_EQ(written["checks"].size(), 3U);
  EXPECT_EQ(written["checks"][1]["name"], "check_1");
  EXPECT_EQ(written["checks"][1]["failure"]["position"], 12);
  EXPECT_EQ(written["checks"][1]["failure"]["facts"].size(), 2U);
  EXPECT_FALSE(written["checks"][0].contains("failure"));
  EXPECT_EQ(written["mean_accepted"], 3);
  EXPECT_EQ(written["drafts"][0]["acceptance_rate"], 0.75);
  EXPECT_EQ(written["drafts"][0]["depths"][0]["expected"], 1.5);
  EXPECT_EQ(written["drafts"][0]["rounds_by_accepted"], json({0, 1, 1}));
  EXPECT_EQ(written["seconds"]["plain"]["median"], 2);
  EXPECT_EQ(written["seconds"]["plain"]["min"], 1);
  EXPECT_EQ(written["seconds"]["plain"]["max"], 3);
  EXPECT_EQ(written["seconds"]["speculative"]["median"], 4);
  EXPECT_EQ(written["matrix"]["decoders"][0]["outcomes"], json({"pass", "fail"}));
  EXPECT_EQ(written["runs"].size(), 2U);
}

TEST(ReportJson, WritesNonFiniteNumbersAsStrings) {
  const json written = json::parse(report_json(full_report()));
  EXPECT_EQ(written["token_tests"][0]["e_value"], "inf");
  EXPECT_EQ(written["token_tests"][0]["curve"][1], json({100, "inf"}));
  Report report = full_report();
  report.token_tests[0].e_value = std::numeric_limits<double>::quiet_NaN();
  report.token_tests[0].smallest_deviation = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(json::parse(report_json(report))["token_tests"][0]["e_value"], "nan");
  EXPECT_EQ(json::parse(report_json(report))["token_tests"][0]["smallest_deviation"], "-inf");
}

TEST(ReportJson, LeavesOutAGapThatIsNotKnown) {
  Report report = full_report();
  EXPECT_EQ(json::parse(report_json(report))["differences"][0]["gap"], 0.125);
  report.differences[0].gap.reset();
  const json written = json::parse(report_json(report))["differences"][0];
  for (const char* field : {"gap", "gap_at_least", "gap_from"}) EXPECT_FALSE(written.contains(field)) << field;
}

TEST(ReportJson, LeavesOutMissingPlaces) {
  Report report = report_with({Outcome::fail});
  Failure& failure = *report.findings[0].failure;
  failure.round = failure.position = -1;
  failure.reproduce.clear();
  const json written = json::parse(report_json(report))["checks"][0]["failure"];
  for (const char* field : {"line", "round", "position", "reproduce"}) EXPECT_FALSE(written.contains(field)) << field;
}

}  // namespace
}  // namespace draftproof::test::json_test
