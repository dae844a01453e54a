// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/command.h"

namespace draftproof::test::zoo_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ZooCommand, PrintsTheRowsOfTheSnapshotAndTheFindingsOfChosenDecoders) {
  const Outcome outcome = run_command({"zoo", "--only", "A01", "N06"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream printed(outcome.out);
  const std::string snapshot = text_of(fixture("snapshots/mutants.txt"));
  for (const char* const begin : {"# Which check", "  ", "A01 ", "N06 "}) {
    std::string line;
    std::getline(printed, line);
    EXPECT_THAT(line, StartsWith(begin));
    EXPECT_THAT(snapshot, HasSubstr(line + "\n"));
  }
  EXPECT_THAT(outcome.out, HasSubstr("acceptance_correct         fail    draft perturbed"));
  EXPECT_THAT(outcome.out, HasSubstr("1 of 1 mutants caught, 1 of 1 controls not flagged"));
}

TEST(ZooCommand, WritesTheFindingsAsJson) {
  const Outcome outcome = run_command({"zoo", "--only", "E11", "--json", "-"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("verdict"), "PASS_EXACT");
  const auto& decoder = json.at("matrix").at("decoders").at(0);
  EXPECT_EQ(decoder.at("id"), "E11");
  EXPECT_EQ(decoder.at("harm"), "speed");
  EXPECT_EQ(decoder.at("as_expected"), true);
  const auto& checks = json.at("matrix").at("checks");
  ASSERT_EQ(decoder.at("outcomes").size(), checks.size());
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const char* const expected = checks.at(i) == "draft_state"    ? "perf_regression"
                                 : checks.at(i) == "prefix_reuse" ? "vacuous"  // the small loop has no prefix cache
                                                                  : "pass";
    EXPECT_EQ(decoder.at("outcomes").at(i), expected) << checks.at(i);
  }
}

TEST(ZooCommand, RefusesAnUnknownId) {
  const Outcome outcome = run_command({"zoo", "--only", "A01", "Q99"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("--only 'Q99': there is no such mutant or control"));
  EXPECT_EQ(outcome.out, "");
}

}  // namespace
}  // namespace draftproof::test::zoo_test
