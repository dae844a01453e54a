// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <regex>

#include "tests/report/samples.h"
#include "tests/report/xml.h"

namespace draftproof::test::junit_test {
namespace {

using testing::HasSubstr;

/// What is wrong with a suite as a CI server reads it, given the report; empty when nothing is.
std::string fault_of(const std::string& xml, const Report& report) {
  if (const std::string fault = xml_fault(xml); !fault.empty()) return fault;
  const auto count = [&](const std::string& words) {
    const std::regex found(words);
    return std::distance(std::sregex_iterator(xml.begin(), xml.end(), found), std::sregex_iterator());
  };
  const auto stated = [&](const std::string& name) {
    std::smatch found;
    const std::regex attribute("<testsuite [^>]*\\b" + name + "=\"([0-9]+)\"");
    return std::regex_search(xml, found, attribute) ? std::stol(found[1]) : -1;
  };
  if (stated("tests") != count("<testcase ")) return "tests are miscounted";
  if (stated("failures") != count("<failure ")) return "failures are miscounted";
  if (stated("errors") != count("<error ")) return "errors are miscounted";
  if (stated("skipped") != count("<skipped ")) return "skipped are miscounted";
  const bool passes = stated("failures") + stated("errors") + stated("skipped") == 0;
  if (passes != (exit_status(report.verdict) == 0)) return "it looks otherwise than the verdict";
  for (const Finding& finding : report.findings) {
    if (count("name=\"" + finding.check + "\"") != 1) return "not one case for " + finding.check;
  }
  return "";
}

std::vector<Report> reports() {
  std::vector<Report> list = {report_with({Outcome::pass}), report_with({Outcome::pass, Outcome::fail}),
                              report_with({Outcome::vacuous, Outcome::pass}), full_report()};
  for (const ReportVerdict verdict :
       {ReportVerdict::undecided, ReportVerdict::vacuous, ReportVerdict::bug_stat, ReportVerdict::bug_proven,
        ReportVerdict::invalid_trace, ReportVerdict::perf_regression}) {
    list.push_back(report_with({Outcome::pass}));
    list.back().verdict = verdict;
  }
  return list;
}

TEST(ReportJunit, HasTheOutcomeOfTheVerdict) {
  for (const Report& report : reports()) EXPECT_EQ(fault_of(report_junit(report), report), "") << report_junit(report);
}

TEST(ReportJunit, TheTestFindsAWrongRenderer) {
  const Report report = full_report();
  const std::string good = report_junit(report);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    const std::size_t at = bad.find(from);
    EXPECT_NE(at, std::string::npos) << from << "\n" << good;
    return at == std::string::npos ? bad : bad.replace(at, from.size(), to);
  };
  EXPECT_EQ(fault_of(changed("failures=\"1\"", "failures=\"0\""), report), "failures are miscounted");
  EXPECT_EQ(fault_of(changed("skipped=\"1\"", "skipped=\"0\""), report), "skipped are miscounted");
  EXPECT_EQ(fault_of(changed("name=\"check_0\"", "name=\"check_1\""), report), "not one case for check_0");
  EXPECT_NE(fault_of(changed("&lt;model&gt;", "<model>"), report), "");
  EXPECT_NE(fault_of(changed("&amp;", "&"), report), "");
  EXPECT_NE(fault_of(changed("&quot;more", "\"more"), report), "");
  EXPECT_NE(fault_of(changed("</testcase>", ""), report), "");
  EXPECT_NE(fault_of(good + "\x01", report), "");
  EXPECT_NE(fault_of(changed("check_2", "check_2\xff"), report), "");
  const Report vacuous = reports()[2];
  std::string passed = report_junit(vacuous);
  passed = std::regex_replace(passed, std::regex("<skipped [^>]*/>"), "");
  passed = std::regex_replace(passed, std::regex("skipped=\"[0-9]+\""), "skipped=\"0\"");
  EXPECT_EQ(fault_of(passed, vacuous), "it looks otherwise than the verdict");
}

TEST(ReportJunit, AFailureHasTheVerdictTheMessageAndTheFacts) {
  const std::string xml = report_junit(report_with({Outcome::fail}));
  EXPECT_THAT(xml, HasSubstr("<failure message=\"BUG_PROVEN\">a run, round 3, position 12: expected: 1 &lt; 2 &amp; "
                             "&quot;x&quot;; observed: token 7\n- the text before is the same\n- two &amp; two\n"
                             "can be at fault: the loop\ncannot be at fault: the model\n"
                             "reproduce: draftproof reproduce here</failure>"));
}

TEST(ReportJunit, OneTestCaseHasAllFailuresOfACheck) {
  Report report = report_with({Outcome::fail, Outcome::fail});
  report.findings[1].check = report.findings[0].check;
  const std::string xml = report_junit(report);
  EXPECT_THAT(xml, HasSubstr("tests=\"1\" failures=\"1\""));
  EXPECT_EQ(fault_of(xml, report), "");
}

}  // namespace
}  // namespace draftproof::test::junit_test
