// SPDX-License-Identifier: MIT
// Traces of the rule `block`: our own rounds are decided again, wrong ones are found by what they accept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/spectrace/support.h"
#include "zoo/parts.h"

namespace draftproof::spectrace::block_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(BlockTraces, PassAndEveryRoundIsDecidedAgain) {
  Recorded recorded;
  int exact = 0;
  int stated = 0;
  for (const char* draft : {"perturbed", "always-reject", "perfect", "scripted:+~-/~~"}) {
    for (const float temperature : {0.0F, 1.0F}) {
      for (const Verification verification : {Verification::batched, Verification::serial}) {
        const File file(recorded.text({"", &block, {.temperature = temperature}, draft, verification, {0}, 40}));
        const TraceReport report = replay(file.path(), recorded.target());
        EXPECT_TRUE(report.findings.empty()) << draft;
        EXPECT_THAT(report.missing, Not(Contains(HasSubstr("is not replayed"))));
        const bool behind = !report.missing.empty();  // some round read rows behind its accepted draft tokens
        EXPECT_EQ(report.verdict() == ReportVerdict::pass_exact, !behind) << draft;
        exact += !behind;
        stated += behind;
      }
    }
  }
  EXPECT_GT(exact, 0);
  EXPECT_GT(stated, 0);
}

TEST(BlockTraces, OfWrongRulesAreFoundByWhatTheyAccept) {
  for (const Rule* wrong :
       {&zoo::block_with_replacement_of_token, &zoo::block_with_coins_by_position, &zoo::block_with_share_not_cut}) {
    int found = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      Recorded recorded({.vocabulary = 6, .levels = 4, .seed = seed});
      const File file(recorded.text({"", wrong, {.temperature = 1}, "perturbed", Verification::batched, {}, 60}));
      found += replay(file.path(), recorded.target()).verdict() == ReportVerdict::bug_proven;
    }
    EXPECT_GE(found, 3);
  }
}

TEST(BlockTraces, ASerialVerificationThatDoesNotStateItsRowsMayHaveReadOn) {
  Recorded recorded;
  const auto lines =
      lines_of(recorded.text({"", &block, {.temperature = 1}, "perturbed", Verification::serial, {}, 60}));
  const auto findings = [&](bool too_few) {
    auto changed = lines;
    int read_on = 0;
    for (std::string& line : changed) {
      Json event = Json::parse(line);
      event.erase("p_rows");
      if (event["type"] == "round") {
        read_on += event["width"] > event["accepted"].get<int>() + 1;
        if (too_few && event["accepted"] > 0) event["width"] = event["accepted"];
      }
      line = event.dump();
    }
    EXPECT_GT(read_on, 0);
    const File file(sealed(changed));
    const TraceReport report = replay(file.path(), recorded.target());
    EXPECT_NE(report.verdict(), ReportVerdict::invalid_trace);
    return report.findings.size();
  };
  EXPECT_EQ(findings(false), 0U);
  EXPECT_GT(findings(true), 0U) << "fewer rows than were accepted, and one more";
}

TEST(BlockTraces, ARoundWithoutItsRowsIsNotDecidedAgainAndTheReportSaysSo) {
  Recorded recorded;
  auto lines = lines_of(recorded.text({"", &block, {.temperature = 1}, "perturbed"}));
  for (std::string& line : lines) {
    Json event = Json::parse(line);
    event.erase("q_rows");
    line = event.dump();
  }
  const File file(sealed(lines));
  const TraceReport report = replay(file.path(), recorded.target());
  EXPECT_THAT(report.missing, Contains(HasSubstr("field q_rows is missing")));
}

}  // namespace
}  // namespace draftproof::spectrace::block_test
