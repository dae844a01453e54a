// SPDX-License-Identifier: MIT
// What a trace states of the target's cache: its digest after a round, and how much of it an earlier turn left. Right
// statements pass; a cache that holds more than its text is found although no token shows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/spectrace/support.h"
#include "zoo/zoo.h"

namespace draftproof::spectrace::cache_state_test {
namespace {

using testing::Contains;
using testing::HasSubstr;

TraceReport report_of(const std::string& text, const TraceTarget& target = {}) {
  return replay(File(text).path(), target);
}
std::string shown(const TraceReport& report) { return report_text(make_report(report)); }

Case sampled(const Rule& rule) { return {rule.name, &rule, {.temperature = 1}, "perturbed", Verification::batched}; }

TEST(StateDigest, OfEveryRoundIsThatOfARunThatReadOnlyTheText) {
  Recorded recorded;
  for (const Rule* rule : {&matching, &rejection}) {
    const std::string text = recorded.text(sampled(*rule));
    int stated = 0;
    for (const std::string& line : lines_of(text)) stated += line.find("\"state_digest\"") != std::string::npos;
    EXPECT_GT(stated, 5);
    const TraceReport report = report_of(text, recorded.target());
    EXPECT_EQ(report.verdict(), ReportVerdict::pass_exact) << shown(report);
    EXPECT_THAT(shown(report), HasSubstr("the target's cache is that of a run that read only the text"));
    EXPECT_THAT(shown(report_of(text)), HasSubstr("field state_digest is not checked")) << "without a target";
  }
}

TEST(StateDigest, ShowsARejectedTokenThatNoRowReads) {
  const zoo::Mutant* const residue = zoo::find("E28");
  ASSERT_NE(residue, nullptr);
  for (const Rule* rule : {&matching, &rejection}) {
    Recorded recorded({.vocabulary = 6, .levels = 4, .seed = 5}, residue->parts);
    Recorded sound;
    const std::string text = recorded.text(sampled(*rule));
    const TraceReport report = report_of(text, sound.target());
    EXPECT_EQ(report.verdict(), ReportVerdict::bug_proven) << shown(report);
    for (const TraceFinding& finding : report.findings) EXPECT_STREQ(finding.check, "state");
    std::vector<std::string> lines = lines_of(text);
    for (std::string& line : lines) {
      Json json = Json::parse(line);
      json.erase("state_digest");
      line = json.dump();
    }
    EXPECT_EQ(report_of(sealed(lines), sound.target()).verdict(), ReportVerdict::pass_exact)
        << "control: the tokens are right";
  }
}

/// Two turns; the second goes on with a cache of the first and reuses this many positions.
std::string turns(const std::string& second_prompt, int reused, const std::string& continues = R"(,"continues":0)") {
  return R"({"type":"header","schema":"spectrace/2","engine":"x","vocabulary":9,"rule":"greedy"})"
         "\n"
         R"({"type":"sequence","sequence":0,"prompt":[1,2],"temperature":"0x0p+0","max_new_tokens":3})"
         "\n"
         R"({"type":"round","sequence":0,"round":0,"position":2,"emitted":[3,4],"draft_tokens":[3,7],"accepted":1,)"
         R"("next_from":"greedy"})"
         "\n"
         R"({"type":"round","sequence":0,"round":1,"position":4,"emitted":[5],"draft_tokens":[],"accepted":0,)"
         R"("next_from":"greedy"})"
         "\n"
         R"({"type":"end","sequence":0,"reason":"length"})"
         "\n"
         R"({"type":"sequence","sequence":1,"prompt":)" +
         second_prompt + continues + R"(,"reused":)" + std::to_string(reused) +
         R"(,"temperature":"0x0p+0","max_new_tokens":1})"
         "\n"
         R"({"type":"round","sequence":1,"round":0,"position":7,"emitted":[8],"draft_tokens":[],"accepted":0,)"
         R"("next_from":"greedy"})"
         "\n"
         R"({"type":"end","sequence":1,"reason":"length"})"
         "\n";
}

TEST(Reused, IsAtMostWhatTheTextOfTheEarlierTurnAndThePromptShare) {
  const auto findings = [](const std::string& text) {
    std::vector<std::string> checks;
    const TraceReport report = report_of(text);
    EXPECT_EQ(report.invalid, "");
    for (const TraceFinding& finding : report.findings) checks.emplace_back(finding.check);
    return checks;
  };
  const std::string goes_on = "[1,2,3,4,5,6,6]", edited = "[1,2,3,7,5,6,6]";
  for (const int reused : {0, 4, 5}) EXPECT_THAT(findings(turns(goes_on, reused)), testing::IsEmpty()) << reused;
  EXPECT_THAT(findings(turns(edited, 3)), testing::IsEmpty());
  // The rejected draft token 7 was left in the cache.
  EXPECT_THAT(findings(turns(edited, 4)), testing::ElementsAre("reused"));
  EXPECT_THAT(findings(turns(goes_on, 6)), testing::ElementsAre("reused"));
}

TEST(Reused, IsNotComparedWithATextWhoseContextWasShifted) {
  std::string text = turns("[1,2,3,7,5,6,6]", 4);
  ASSERT_EQ(report_of(text).findings.size(), 1U);
  text.insert(text.find(R"({"type":"round","sequence":0,"round":1)"),
              R"({"type":"context_shift","sequence":0,"tokens_read":3,"keep":1,"discard":1})"
              "\n");
  const TraceReport report = report_of(text);
  EXPECT_EQ(report.invalid, "");
  EXPECT_TRUE(report.findings.empty()) << shown(report);
  EXPECT_THAT(report.unread, Contains(HasSubstr("or its context was shifted")));
}

TEST(Reused, LeavesTheLastTokenOfThePromptToBeRead) {
  std::string text = turns("[1,2,3,4,5]", 4);
  text.replace(text.find("\"position\":7"), 12, "\"position\":5");
  EXPECT_TRUE(report_of(text).findings.empty());
  text.replace(text.find("\"reused\":4"), 10, "\"reused\":5");
  ASSERT_EQ(report_of(text).findings.size(), 1U);
  EXPECT_THAT(report_of(text).findings[0].expected, HasSubstr("the prompt's last token is read"));
}

TEST(Reused, IsNamedWhereNothingSaysWhoseCacheWasKept) {
  EXPECT_THAT(report_of(turns("[1,2,3,7,5,6,6]", 4, "")).unread, Contains(HasSubstr("whose cache was kept")));
  EXPECT_THAT(report_of(turns("[1,2,3,7,5,6,6]", 4, R"(,"continues":1)")).invalid, HasSubstr("an earlier sequence"));
  std::string lacks = turns("[1,2,3,7,5,6,6]", 4);
  lacks.replace(lacks.find(",\"reused\":4"), 11, "");
  EXPECT_THAT(report_of(lacks).invalid, HasSubstr("reused"));
}

}  // namespace
}  // namespace draftproof::spectrace::cache_state_test
