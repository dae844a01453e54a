// SPDX-License-Identifier: MIT
// The report of a replay: what it says of bets that came near an alarm.
#include "oracle/spectrace/trace_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "oracle/spectrace/games.h"

namespace draftproof::spectrace::trace_report_test {
namespace {

using testing::HasSubstr;
using testing::Not;

TraceReport tested(double e_value) {
  TraceReport report;
  report.examined.rounds = 1;
  report.missing.insert("rows");
  report.token_test.emplace();
  report.token_test->tokens = 400;
  report.token_test->alpha = Games::alpha_of_one;
  report.token_test->e_value = e_value;
  return report;
}

TEST(TraceReport, AnEValueNearTheAlarmIsSuspiciousAndSaysHowManyTokensDecide) {
  const TraceReport near = tested(5000);
  EXPECT_EQ(near.verdict(), ReportVerdict::pass_stat) << "no accusation";
  const std::string reason = make_report(near).reason;
  EXPECT_THAT(reason, HasSubstr("the e-value 5e+03 of the bets on tokens with probability 0.0002 at most"));
  // 400 tokens multiplied it by 5000; 6e9 / 5000 are left.
  const int more = static_cast<int>(std::ceil(400 * std::log(6e9 / 5000) / std::log(5000)));
  EXPECT_THAT(reason, HasSubstr("at this rate " + std::to_string(more) + " more decide"));

  TraceReport open = near;
  open.unproved.insert("a field");
  open.advice = "--slack TV";
  EXPECT_THAT(make_report(open).reason, HasSubstr("--slack TV; suspicious: "));
}

TEST(TraceReport, WhatARightEngineOftenReachesIsNotSuspiciousAndAnAlarmIsABug) {
  EXPECT_EQ(make_report(tested(900)).reason, "");
  TraceReport lossy = tested(5000);
  lossy.token_test->of_lossy = true;
  EXPECT_EQ(make_report(lossy).reason, "") << "tokens of a lossy rule are not the target's";
  TraceReport alarm = tested(7e9);
  alarm.token_test->alarm = true;
  const Report report = make_report(alarm);
  EXPECT_EQ(report.verdict, ReportVerdict::bug_stat);
  EXPECT_THAT(report.reason, Not(HasSubstr("suspicious")));
}

TEST(TraceReport, EveryBetIsNamed) {
  TraceReport report = tested(1);
  report.games.push_back({.name = "acceptance", .observed = 100, .e_value = 1e6, .alarm = false, .message = ""});
  EXPECT_THAT(make_report(report).reason, HasSubstr("of the bets on acceptance with probability 1e-06"));
}

}  // namespace
}  // namespace draftproof::spectrace::trace_report_test
