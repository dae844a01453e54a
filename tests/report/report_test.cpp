// SPDX-License-Identifier: MIT
#include "oracle/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/report/samples.h"

namespace draftproof::test::report_test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ReportVerdict, AFailureTakesPrecedenceOverVacuousAndVacuousOverAPass) {
  const auto verdict = [](std::vector<Outcome> outcomes) { return report_with(std::move(outcomes)).verdict; };
  EXPECT_EQ(verdict({Outcome::pass, Outcome::pass}), ReportVerdict::pass_exact);
  EXPECT_EQ(verdict({Outcome::pass, Outcome::vacuous}), ReportVerdict::vacuous);
  EXPECT_EQ(verdict({Outcome::vacuous, Outcome::fail, Outcome::pass}), ReportVerdict::bug_proven);
  EXPECT_EQ(verdict({Outcome::perf_regression, Outcome::fail}), ReportVerdict::bug_proven);
  EXPECT_EQ(verdict({Outcome::vacuous, Outcome::perf_regression}), ReportVerdict::perf_regression);
}

TEST(ReportVerdict, AReasonMakesAPassVacuousAndHidesNoFailure) {
  const std::string reason = "no draft token was rejected in any run";
  EXPECT_EQ(verdict_of(report_with({Outcome::pass}).findings, reason), ReportVerdict::vacuous);
  EXPECT_EQ(verdict_of(report_with({Outcome::fail}).findings, reason), ReportVerdict::bug_proven);
}

TEST(ReportVerdict, OnlyAPassHasExitCode0) {
  const std::pair<ReportVerdict, int> table[] = {
      {ReportVerdict::pass_exact, 0},    {ReportVerdict::pass_stat, 0},      {ReportVerdict::bug_proven, 1},
      {ReportVerdict::bug_stat, 1},      {ReportVerdict::undecided, 2},      {ReportVerdict::vacuous, 2},
      {ReportVerdict::invalid_trace, 3}, {ReportVerdict::perf_regression, 4}};
  for (const auto& [verdict, status] : table) EXPECT_EQ(exit_status(verdict), status) << name_of(verdict);
}

TEST(Message, NamesThePlaceAndBothSides) {
  EXPECT_EQ(
      message_of({.run = "a run", .line = 9, .round = 3, .position = 12, .expected = "token 5", .observed = "token 7"}),
      "a run, line 9, round 3, position 12: expected: token 5; observed: token 7");
  EXPECT_EQ(message_of({.expected = "x", .observed = "y"}), "expected: x; observed: y");
  EXPECT_EQ(message_of({.round = 0, .position = 0, .expected = "x", .observed = "y"}),
            "round 0, position 0: expected: x; observed: y");
}

TEST(ReportText, TooFewTokensShowNoDeviation) {
  Report report = report_with({Outcome::pass});
  TokenTest& token_test = report.token_tests.emplace_back();
  token_test.alpha = 1e-9;
  token_test.smallest_deviation = 0.25;
  EXPECT_THAT(report_text(report), HasSubstr("a known fault with total variation 0.25 would have been found"));
  token_test.smallest_deviation = 1;
  EXPECT_THAT(report_text(report), HasSubstr("so few tokens show nothing"));
  EXPECT_THAT(report_text(report), Not(HasSubstr("a known fault")));
}

TEST(ReportText, ShowsChecksFactsBlameAndVerdict) {
  Report report = report_with({Outcome::pass, Outcome::fail});
  report.reason = "because";
  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("rule matching, seed 7; 2 runs"));
  EXPECT_THAT(text, HasSubstr("check_1                    fail    a run, round 3, position 12: expected: 1 < 2 & "));
  EXPECT_THAT(text, HasSubstr("- the text before is the same\n"));
  EXPECT_THAT(text, HasSubstr("can be at fault: the loop\n"));
  EXPECT_THAT(text, HasSubstr("cannot be at fault: the model\n"));
  EXPECT_THAT(text, HasSubstr("reproduce: draftproof reproduce here\n"));
  EXPECT_THAT(text, HasSubstr("BUG_PROVEN: because"));
}

TEST(ReportText, ClaimsNoSpeedWhichAProofDoesNotShow) {
  Report report = report_with({Outcome::pass});
  report.output_tokens = 48;
  report.plain = spread_of({0.01});
  DraftReport& draft = report.drafts.emplace_back();
  draft.name = "suffix";
  draft.statistics.iterations = draft.statistics.drafted = 1;
  draft.seconds = spread_of({0.02});
  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("suffix: mean accepted 0.00 of 1.00 draft tokens"));
  EXPECT_THAT(text, Not(HasSubstr("tokens/s")));
  EXPECT_THAT(text, Not(HasSubstr("0.50x")));
}

TEST(ReportText, EscapesControlCharactersOfNames) {
  Report report = report_with({Outcome::fail});
  report.subject = report.reason = report.findings[0].message = report.unproved.emplace_back("a\x1b[31m\nb");
  report.about.emplace_back("engine", "\x1b[2J");
  report.findings[0].failure->facts = {"\x1b]0;"};
  report.about.emplace_back("rule", "a\u009b31mb\u00e9");  // the same in one character
  const std::string text = report_text(report);
  for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ');
  EXPECT_THAT(text, testing::HasSubstr("rule a\\xc2\\x9b31mb\u00e9"));
}

TEST(ReportText, ExplainsEveryTextThatPartsAndShowsTheFirstOnes) {
  Report report = report_with({Outcome::pass});
  TextDifference tie{"greedy, prompt 3, alone", 40, "token 5", "token 7", "TIE", 0.00125, false, "the target"};
  report.differences.assign(60, tie);
  report.differences[1].explanation = "BUG";
  report.differences[1].gap_at_least = true;
  report.differences[2].explanation = "NOT_EXPLAINED";
  report.differences[2].gap.reset();
  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("texts that part from plain decoding: 60 (58 TIE, 1 NOT_EXPLAINED, 1 BUG)\n"));
  EXPECT_THAT(text, HasSubstr("greedy, prompt 3, alone, position 40: TIE, gap 0.0013 of the target; token 7 for "
                              "token 5\n"));
  EXPECT_THAT(text, HasSubstr("BUG, gap more than 0.0013 of the target; "));
  EXPECT_THAT(text, HasSubstr("NOT_EXPLAINED, gap not known; "));
  EXPECT_THAT(text, HasSubstr("and 10 more, which --json has\n"));
  EXPECT_THAT(report_text(report_with({Outcome::pass})), Not(HasSubstr("texts that part")));
}

TEST(ReportText, OfTheZooIsTheMatrixAndTheUnexpectedOutcomes) {
  const std::string text = report_text(full_report());
  EXPECT_THAT(text, HasSubstr("X01   \"odd\""));
  EXPECT_THAT(text, HasSubstr("0 of 1 mutants caught, 1 of 1 controls not flagged"));
  EXPECT_THAT(text, HasSubstr("expected: 1 < 2"));
}

TEST(Spread, IsMedianMinimumAndMaximum) {
  EXPECT_EQ(spread_of({}).median, 0);
  const Spread spread = spread_of({5, 1, 9});
  EXPECT_EQ(spread.median, 5);
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, 9);
}

}  // namespace
}  // namespace draftproof::test::report_test
