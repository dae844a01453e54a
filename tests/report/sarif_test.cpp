// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/report/samples.h"

namespace draftproof::test::sarif_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// What SARIF 2.1.0 (sections 3.13, 3.14, 3.18, 3.19, 3.27, 3.49) asks of a log as we write it; empty when it is there.
std::string fault_of(const json& log, const Report& report) {
  if (!log.is_object() || log.value("version", "") != "2.1.0") return "no version";
  if (!log.value("$schema", "").starts_with("https://")) return "no schema";
  if (!log.contains("runs") || !log["runs"].is_array() || log["runs"].size() != 1) return "not one run";
  const json& run = log["runs"][0];
  if (!run.contains("tool") || !run["tool"].contains("driver")) return "no driver";
  const json& driver = run["tool"]["driver"];
  if (driver.value("name", "").empty()) return "the driver has no name";
  if (!driver.contains("rules") || !driver["rules"].is_array()) return "no rules";
  std::set<std::string> ids;
  for (const json& rule : driver["rules"]) {
    if (rule.value("id", "").empty() || !ids.insert(rule["id"]).second) return "a rule without an id of its own";
    for (const char* text : {"shortDescription", "fullDescription", "help"}) {
      if (!rule.contains(text) || rule[text].value("text", "").empty()) return "a rule does not say what it is";
    }
  }
  if (!run.contains("results") || !run["results"].is_array()) return "no results";
  std::size_t failures = report.verdict == ReportVerdict::bug_stat ? 1 : 0;  // of the tokens together
  for (const Finding& finding : report.findings) failures += finding.failure.has_value();
  if (run["results"].size() != failures) return "not a result for each failure";
  for (const json& result : run["results"]) {
    const std::size_t index = result.value("ruleIndex", std::size_t{999});
    if (index >= driver["rules"].size() || driver["rules"][index]["id"] != result["ruleId"]) return "a rule is missing";
    if (result.value("level", "") != "error") return "a result that is no error";
    if (!result.contains("message") || result["message"].value("text", "").empty()) return "no message";
    if (!result["locations"].is_array() || result["locations"].size() != 1) return "not one place";
    const json& place = result["locations"][0]["physicalLocation"];
    const std::string uri = place["artifactLocation"].value("uri", "");
    if (uri.empty() || uri.find_first_of(" <>\"\\^`{|}") != std::string::npos) return "no URI";
    for (const char c : uri) {
      if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f) return "no URI";
    }
    if (place["region"].value("startLine", 0) < 1) return "no line";
    if (!result.contains("partialFingerprints") || result["partialFingerprints"].empty()) return "no fingerprint";
  }
  if (!run["invocations"].is_array() || !run["invocations"][0].contains("executionSuccessful")) return "no invocation";
  return "";
}

json sarif_of(const Report& report) { return json::parse(report_sarif(report)); }

TEST(ReportSarif, HasWhatTheStandardRequires) {
  Report by_tokens = report_with({Outcome::pass});
  by_tokens.verdict = ReportVerdict::bug_stat;
  by_tokens.reason = "e-value 1e+12 after 900 tokens";
  for (const Report& report : {report_with({Outcome::pass}), report_with({Outcome::fail}), full_report(), by_tokens}) {
    EXPECT_EQ(fault_of(sarif_of(report), report), "") << report_sarif(report);
  }
}

TEST(ReportSarif, TheTestFindsAWrongRenderer) {
  const Report report = full_report();
  const auto changed = [&](const auto& change) {
    json log = sarif_of(report);
    change(log["runs"][0]);
    return fault_of(log, report);
  };
  EXPECT_EQ(changed([](json& run) { run["results"].erase(0); }), "not a result for each failure");
  EXPECT_EQ(changed([](json& run) { run["tool"]["driver"]["rules"] = json::array(); }), "a rule is missing");
  EXPECT_EQ(changed([](json& run) { run["results"][0]["level"] = "note"; }), "a result that is no error");
  EXPECT_EQ(changed([](json& run) { run["results"][0].erase("partialFingerprints"); }), "no fingerprint");
  EXPECT_EQ(changed([](json& run) {
              run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] = "a b";
            }),
            "no URI");
}

TEST(ReportSarif, PlacesAFailureInItsLineWithFactsAndBlame) {
  const json run = sarif_of(full_report())["runs"][0];
  const json& result = run["results"][0];
  EXPECT_EQ(result["ruleId"], "check_1");
  EXPECT_EQ(result["locations"][0]["physicalLocation"]["region"]["startLine"], 9);
  EXPECT_THAT(result["message"]["text"].get<std::string>(), HasSubstr("; the text before is the same; two & two"));
  EXPECT_THAT(run["tool"]["driver"]["rules"][0]["help"]["text"].get<std::string>(),
              HasSubstr("Can be at fault: the loop. Cannot be at fault: the model."));
}

TEST(ReportSarif, FingerprintsDependOnNeitherFileNorLine) {
  const auto print_of = [](const auto& change) {
    Report report = full_report();
    change(report);
    return sarif_of(report)["runs"][0]["results"][0]["partialFingerprints"].dump();
  };
  const std::string print = print_of([](Report&) {});
  EXPECT_EQ(print_of([](Report& report) { report.subject = "another.jsonl"; }), print);
  EXPECT_EQ(print_of([](Report& report) { report.findings[1].failure->line = 77; }), print);
  EXPECT_NE(print_of([](Report& report) { report.findings[1].failure->position = 13; }), print);
  EXPECT_NE(print_of([](Report& report) { report.findings[1].failure->observed = "token 8"; }), print);
  EXPECT_NE(print_of([](Report& report) { report.findings[1].check = "other"; }), print);
}

TEST(ReportSarif, HasAResultForTheSequentialTest) {
  Report report = report_with({Outcome::pass});
  report.verdict = ReportVerdict::bug_stat;
  report.reason = "e-value 1e+12 after 900 tokens";
  report.token_tests = {{900, 1e-9, 0, 1e12, 0.25, "accept all", {}}};
  const json result = sarif_of(report)["runs"][0]["results"][0];
  EXPECT_EQ(result["ruleId"], "token_test");
  EXPECT_THAT(result["message"]["text"].get<std::string>(), HasSubstr("e-value 1e+12 after 900 tokens"));
}

TEST(ReportSarif, ReportsAnInvalidTraceAsNotExecuted) {
  Report report = report_with({});
  report.verdict = ReportVerdict::invalid_trace;
  report.reason = "line 3: no JSON";
  const json run = sarif_of(report)["runs"][0];
  EXPECT_EQ(run["results"], json::array());
  EXPECT_EQ(run["invocations"][0]["executionSuccessful"], false);
  EXPECT_EQ(run["invocations"][0]["exitCode"], 3);
  EXPECT_THAT(run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].get<std::string>(),
              HasSubstr("line 3: no JSON"));
}

}  // namespace
}  // namespace draftproof::test::sarif_test
