// SPDX-License-Identifier: MIT
#include "oracle/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace draftproof {
namespace {

using testing::HasSubstr;
using testing::Not;

Finding finding_of(const char* check, Outcome outcome, const char* sentence) {
  Finding finding;
  finding.check = check;
  finding.outcome = outcome;
  finding.examined = 3;
  finding.sentence = sentence;
  return finding;
}

Report report_of(std::vector<Outcome> outcomes) {
  Report report;
  report.target = "a <model> & \"more\"";
  report.drafts.push_back({"hostile", {}, 0, {}, {}});
  report.rule = "matching";
  report.kernels = "scalar";
  report.seed = 7;
  report.prompt_tokens = 4;
  report.output_tokens = 12;
  report.runs = {"one way", "another"};
  for (const Outcome outcome : outcomes) report.findings.push_back(finding_of("budget", outcome, "1 < 2 & \"x\""));
  return report;
}

TEST(ReportVerdict, AFailureBeatsVacuousBeatsAPass) {
  EXPECT_EQ(report_of({Outcome::pass, Outcome::pass}).verdict(), ReportVerdict::pass_exact);
  EXPECT_EQ(report_of({Outcome::pass, Outcome::vacuous}).verdict(), ReportVerdict::vacuous);
  EXPECT_EQ(report_of({Outcome::vacuous, Outcome::fail, Outcome::pass}).verdict(), ReportVerdict::bug_proven);
}

TEST(ReportVerdict, AReasonMakesAPassVacuousAndHidesNoFailure) {
  Report passed = report_of({Outcome::pass});
  Report failed = report_of({Outcome::fail});
  passed.reason = failed.reason = "no guess was refused in any run";
  EXPECT_EQ(passed.verdict(), ReportVerdict::vacuous);
  EXPECT_EQ(failed.verdict(), ReportVerdict::bug_proven);
}

TEST(ReportText, ShowsChecksSentencesAndVerdict) {
  Report report = report_of({Outcome::pass, Outcome::fail});
  report.reason = "because";
  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("rule matching, greedy, seed 7, prompt of 4 tokens, 12 new; 2 runs"));
  EXPECT_THAT(text, HasSubstr("budget             fail    1 < 2 & \"x\""));
  EXPECT_THAT(text, HasSubstr("BUG_PROVEN: because"));
  EXPECT_THAT(text, Not(HasSubstr("tokens/s"))) << "nothing was timed";
}

TEST(ReportJson, HasTheDocumentedFields) {
  Report report = report_of({Outcome::pass, Outcome::vacuous});
  report.sampling.temperature = 0.5F;
  report.drafts[0].statistics.iterations = 2;
  report.drafts[0].statistics.drafted = 8;
  report.drafts[0].statistics.accepted = 6;
  report.plain = spread_of({3, 1, 2});
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json["command"], "verify");
  EXPECT_EQ(json["verdict"], "VACUOUS");
  EXPECT_EQ(json["target"], report.target);
  EXPECT_EQ(json["draft"], "hostile");
  EXPECT_EQ(json["rule"], "matching");
  EXPECT_EQ(json["kernels"], "scalar");
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["prompt_tokens"], 4);
  EXPECT_EQ(json["output_tokens"], 12);
  EXPECT_EQ(json["runs"].size(), 2u);
  EXPECT_EQ(json["sampling"]["temperature"], 0.5);
  for (const char* field : {"top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty",
                            "repeat_last_n"}) {
    EXPECT_TRUE(json["sampling"].contains(field)) << field;
  }
  ASSERT_EQ(json["checks"].size(), 2u);
  EXPECT_EQ(json["checks"][1]["name"], "budget");
  EXPECT_EQ(json["checks"][1]["outcome"], "vacuous");
  EXPECT_EQ(json["checks"][1]["examined"], 3);
  EXPECT_EQ(json["checks"][1]["sentence"], "1 < 2 & \"x\"");
  EXPECT_EQ(json["mean_accepted"], 3);
  const auto& draft = json["drafts"][0];
  EXPECT_EQ(draft["name"], "hostile");
  EXPECT_EQ(draft["acceptance"], 0.75);
  EXPECT_EQ(draft["iterations"], 2);
  EXPECT_EQ(draft["drafted"], 8);
  EXPECT_EQ(draft["accepted"], 6);
  EXPECT_TRUE(json.contains("reason"));
  EXPECT_TRUE(json.contains("tokens_per_round"));
  EXPECT_EQ(json["seconds"]["plain"]["median"], 2);
  EXPECT_EQ(json["seconds"]["plain"]["min"], 1);
  EXPECT_EQ(json["seconds"]["plain"]["max"], 3);
  EXPECT_EQ(json["seconds"]["speculative"]["median"], 0);
}

TEST(ReportJson, SurvivesNamesThatAreNotUtf8) {
  Report report = report_of({Outcome::pass});
  report.target = "bytes \xff\xfe";
  EXPECT_EQ(nlohmann::json::parse(report_json(report))["verdict"], "PASS_EXACT");
}

TEST(ReportJunit, EscapesAndCounts) {
  Report report = report_of({Outcome::pass, Outcome::fail, Outcome::vacuous});
  report.target += '\x01';
  const std::string xml = report_junit(report);
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"1\" skipped=\"1\""));
  EXPECT_THAT(xml, HasSubstr("classname=\"a &lt;model&gt; &amp; &quot;more&quot;?\""));
  EXPECT_THAT(xml, HasSubstr("<failure message=\"BUG_PROVEN\">1 &lt; 2 &amp; &quot;x&quot;</failure>"));
  EXPECT_THAT(xml, HasSubstr("<skipped message=\"1 &lt; 2 &amp; &quot;x&quot;\"/>"));
}

TEST(ReportJunit, ARunThatProvesNothingDoesNotLookLikeAPass) {
  Report report = report_of({Outcome::pass});
  report.reason = "no guess was refused in any run";
  const std::string xml = report_junit(report);
  EXPECT_THAT(xml, HasSubstr("tests=\"2\" failures=\"0\" skipped=\"1\""));
  EXPECT_THAT(xml, HasSubstr("name=\"exercised\"><skipped message=\"no guess was refused in any run\"/>"));
}

TEST(Spread, IsMedianLeastAndMost) {
  EXPECT_EQ(spread_of({}).median, 0);
  const Spread spread = spread_of({5, 1, 9});
  EXPECT_EQ(spread.median, 5);
  EXPECT_EQ(spread.least, 1);
  EXPECT_EQ(spread.most, 9);
}

}  // namespace
}  // namespace draftproof
