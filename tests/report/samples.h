// SPDX-License-Identifier: MIT
// Reports to be rendered: with a few outcomes, and with everything a report can have, under names that are hostile.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "oracle/report/report.h"

namespace draftproof::test {

/// Every character that markup, JSON or a terminal makes something of; a control and bytes that are not UTF-8.
inline const std::string hostile_name =
    "a <model> & \"more\" 'x' ]]> --> \x01\x1b[31m \xff\xfe\xc3 \\ \t%00 http://h/<b>";

inline Finding finding_with(const std::string& check, Outcome outcome) {
  Finding finding{.check = check, .outcome = outcome, .examined = 3, .message = "1 < 2 & \"x\""};
  if (outcome != Outcome::fail && outcome != Outcome::perf_regression) return finding;
  finding.failure = Failure{.run = "a run",
                            .line = 9,
                            .round = 3,
                            .position = 12,
                            .expected = "1 < 2 & \"x\"",
                            .observed = "token 7",
                            .facts = {"the text before is the same", "two & two"},
                            .blames = "the loop",
                            .clears = "the model",
                            .reproduce = "draftproof reproduce here"};
  finding.failure->line = 0;
  finding.message = message_of(*finding.failure);
  return finding;
}

/// Checks check_0, check_1, ... with these outcomes.
inline Report report_with(std::vector<Outcome> outcomes) {
  Report report;
  report.command = "verify";
  report.version = "1.2.3";
  report.subject = "a target";
  report.about = {{"rule", "matching"}, {"seed", "7"}};
  report.runs = {"one way", "another"};
  for (const Outcome outcome : outcomes) {
    report.findings.push_back(finding_with("check_" + std::to_string(report.findings.size()), outcome));
  }
  report.verdict = verdict_of(report.findings, "");
  return report;
}

/// Every field there is has something in it.
inline Report full_report() {
  Report report = report_with({Outcome::pass, Outcome::fail, Outcome::vacuous});
  report.findings[1].failure->line = 9;
  report.subject = hostile_name;
  report.reason = hostile_name;
  report.scope = hostile_name;
  report.about.emplace_back("engine", hostile_name);
  report.examined = {{"rounds", 12}, {"band_mass", 0.25}};
  report.unproved = {hostile_name};
  report.plain = spread_of({3, 1, 2});
  report.output_tokens = 12;
  DraftReport draft;
  draft.name = hostile_name;
  draft.statistics.iterations = 2;
  draft.statistics.drafted = 8;
  draft.statistics.accepted = 6;
  draft.depths = {{2, 1, 1.5}};
  draft.accepted = {0, 1, 1};
  draft.seconds = spread_of({4});
  draft.untested = hostile_name;
  report.drafts = {draft};
  report.token_tests = {{100,
                         1e-9,
                         0,
                         std::numeric_limits<double>::infinity(),
                         0.125,
                         hostile_name,
                         {{1, 1.0}, {100, std::numeric_limits<double>::infinity()}},
                         {1.0, std::numeric_limits<double>::infinity()}}};
  report.bets = {{hostile_name, 12, 1e-9, std::numeric_limits<double>::infinity(), true, hostile_name}};
  report.divergences = {{hostile_name, 3, 12, hostile_name, "a", "b", "c"}};
  report.differences = {{hostile_name, 40, hostile_name, hostile_name, "TIE", 0.125, true, hostile_name}};
  report.trials = {{"0f", hostile_name, "BUG_PROVEN", hostile_name, {"check_1"}, 12, 8, 6}};
  report.matrix.checks = {"one", "two"};
  report.matrix.rows = {{"X01",
                         "\"odd\"",
                         "lossy",
                         hostile_name,
                         false,
                         {Outcome::pass, Outcome::fail},
                         "A1",
                         hostile_name,
                         {"one"},
                         {"says <this>", "and & that"}},
                        {"N01", "fine", "right", "", true, {Outcome::pass, Outcome::pass}, "A1", "", {}, {"", ""}}};
  return report;
}

}  // namespace draftproof::test
