// SPDX-License-Identifier: MIT
// Every mutant is caught by the checks that must catch it, no control by any; the whole matrix is in
// fixtures/snapshots/mutants.txt. DRAFTPROOF_ACCEPT=1 in the environment of ZooSlow rewrites that file. The fast tests
// examine a mutant of each check and a control of each stage.
#include "zoo/zoo.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/oracle/told.h"

namespace draftproof::zoo::zoo_test {
namespace {

std::vector<Row> rows_of(const std::vector<const Mutant*>& decoders) {
  std::vector<Row> rows;
  for (const Mutant* const decoder : decoders) rows.push_back({decoder, examined(decoder->parts)});
  return rows;
}

/// Mutants, then controls; examined once for all tests of this file.
const std::vector<Row>& all_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<const Mutant*> decoders;
    for (const Mutant& mutant : all_mutants()) decoders.push_back(&mutant);
    for (const Mutant& control : all_controls()) decoders.push_back(&control);
    return rows_of(decoders);
  }();
  return rows;
}

void expect_as_expected(const std::vector<Row>& rows) {
  for (const auto& [mutant, findings] : rows) {
    EXPECT_TRUE(as_expected(*mutant, findings)) << mutant->id << " " << mutant->name << ": " << mutant->cause;
    for (const Check* const check : mutant->expected_failures) {
      EXPECT_TRUE(findings.at(check->name).failure) << mutant->id << " escapes " << check->name;
    }
    if (mutant->harm != Harm::none) continue;
    for (const auto& [check, finding] : findings) {
      EXPECT_EQ(finding.outcome, Outcome::pass) << mutant->id << ", " << check << ": " << finding.message;
    }
  }
}

std::set<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

std::string changed_lines(const std::string& before, const std::string& after) {
  std::string changes;
  for (const std::string& line : lines_of(before)) changes += lines_of(after).contains(line) ? "" : "- " + line + "\n";
  for (const std::string& line : lines_of(after)) changes += lines_of(before).contains(line) ? "" : "+ " + line + "\n";
  return changes;
}

TEST(Zoo, OneMutantOfEachCheckIsCaughtByItAndAControlIsNotFlagged) {
  std::map<const Check*, int> listed;
  std::vector<const Mutant*> decoders;
  for (const Mutant& mutant : all_mutants()) {
    const auto& checks = mutant.expected_failures;
    if (std::none_of(checks.begin(), checks.end(), [&](const Check* check) { return listed[check] < 1; })) continue;
    for (const Check* const check : checks) ++listed[check];
    decoders.push_back(&mutant);
  }
  decoders.push_back(&all_controls().front());  // all of them: ZooSlow
  EXPECT_LT(decoders.size(), all_mutants().size() / 2);
  expect_as_expected(rows_of(decoders));
}

TEST(ZooSlow, EveryMutantIsCaughtByTheChecksThatMustCatchItAndNoControlIsFlagged) { expect_as_expected(all_rows()); }

TEST(ZooSlow, EveryFailureHasBothSidesAndTheFactsThatSeparateThem) {
  for (const Row& row : all_rows()) {
    for (const auto& [check, finding] : row.findings) expect_whole(finding);
    EXPECT_EQ(make_finding(row).outcome, Outcome::pass) << make_finding(row).message;
  }
}

const Check one = {"one", "", "", "", nullptr, nullptr};
const Check two = {"two", "", "", "", nullptr, nullptr};

TEST(Zoo, AFindingAboutADecoderNamesTheChecksAtFault) {
  const Mutant mutant = {"M", "wrong", "", "", Harm::lossy, "", {&one}, {}};
  const Mutant control = {"N", "right", "", "", Harm::none, "", {}, {}};
  const Findings findings{{"one", {"one", Outcome::pass, 1, "saw nothing"}}, {"two", {"two", Outcome::fail, 1, "saw"}}};
  const Finding escaped = make_finding({&mutant, findings});
  EXPECT_EQ(escaped.outcome, Outcome::fail);
  EXPECT_EQ(escaped.failure->observed, "one: pass");
  EXPECT_EQ(escaped.failure->facts, std::vector<std::string>{"one: saw nothing"});
  const Finding flagged = make_finding({&control, findings});
  EXPECT_EQ(flagged.outcome, Outcome::fail);
  EXPECT_EQ(flagged.failure->observed, "two: fail");
}

TEST(Zoo, AMutantThatEscapesACheckAndAControlThatIsFlaggedOrVacuousAreUnexpected) {
  const Mutant mutant = {"", "", "", "", Harm::lossy, "", {&one, &two}, {}};
  const Mutant control = {"", "", "", "", Harm::none, "", {}, {}};
  const auto findings = [](Outcome first, Outcome second) {
    return Findings{{"one", {"one", first, 1, ""}}, {"two", {"two", second, 1, ""}}};
  };
  EXPECT_TRUE(as_expected(mutant, findings(Outcome::fail, Outcome::fail)));
  EXPECT_FALSE(as_expected(mutant, findings(Outcome::fail, Outcome::pass)));
  EXPECT_FALSE(as_expected(mutant, findings(Outcome::vacuous, Outcome::fail)));
  EXPECT_TRUE(as_expected(control, findings(Outcome::pass, Outcome::pass)));
  EXPECT_FALSE(as_expected(control, findings(Outcome::pass, Outcome::fail)));
  EXPECT_FALSE(as_expected(control, findings(Outcome::vacuous, Outcome::pass)));
  const Mutant uncaught = {"", "", "", "", Harm::lossy, "", {}, {}};
  EXPECT_FALSE(as_expected(uncaught, findings(Outcome::fail, Outcome::fail)));
}

TEST(Zoo, IdsAreUniqueAndEveryMutantStatesWhatItBreaksAndHow) {
  std::set<std::string_view> ids;
  const auto expect_stated = [&](const Mutant& mutant) {
    EXPECT_TRUE(ids.insert(mutant.id).second) << mutant.id;
    EXPECT_STRNE(mutant.cause, "") << mutant.id;
    EXPECT_EQ(mutant.expected_failures.empty(), mutant.harm == Harm::none) << mutant.id;
    EXPECT_TRUE(mutant.harm == Harm::none || mutant.stage != std::string_view()) << mutant.id;
  };
  for (const Mutant& mutant : all_mutants()) expect_stated(mutant);
  for (const Mutant& control : all_controls()) expect_stated(control);
}

TEST(Zoo, EveryCheckHasTwoMutantsItMustCatch) {
  for (const std::string& name : check_names()) {
    int listed = 0;
    for (const Mutant& mutant : all_mutants()) {
      const auto& expected = mutant.expected_failures;
      listed += std::any_of(expected.begin(), expected.end(), [&](const Check* check) { return check->name == name; });
    }
    EXPECT_GE(listed, 2) << name;
  }
}

TEST(ZooSlow, AMutantThatCostsOnlySpeedIsNeverCalledLossy) {
  int drafts = 0;
  for (const auto& [mutant, findings] : all_rows()) {
    if (mutant->harm != Harm::speed) continue;
    ++drafts;
    for (const auto& [check, finding] : findings) {
      EXPECT_NE(finding.outcome, Outcome::fail) << mutant->id << ", " << check << ": " << finding.message;
    }
  }
  EXPECT_GE(drafts, 10);
}

TEST(Zoo, WhatCostsOnlySpeedMustBeFoundAsThatAndNotAsAFailure) {
  const Mutant slow = {"M", "slow", "", "", Harm::speed, "", {&one}, {}};
  const auto findings = [](Outcome first, Outcome second) {
    return Findings{{"one", {"one", first, 1, ""}}, {"two", {"two", second, 1, ""}}};
  };
  EXPECT_TRUE(as_expected(slow, findings(Outcome::perf_regression, Outcome::pass)));
  EXPECT_TRUE(as_expected(slow, findings(Outcome::perf_regression, Outcome::perf_regression)));
  EXPECT_FALSE(as_expected(slow, findings(Outcome::pass, Outcome::perf_regression))) << "it escapes";
  EXPECT_FALSE(as_expected(slow, findings(Outcome::fail, Outcome::pass))) << "it is called lossy";
  EXPECT_FALSE(as_expected(slow, findings(Outcome::perf_regression, Outcome::fail))) << "it is called lossy";
  EXPECT_EQ(make_finding({&slow, findings(Outcome::perf_regression, Outcome::fail)}).failure->observed, "two: fail");
  const Mutant lossy = {"M", "lossy", "", "", Harm::lossy, "", {&one}, {}};
  EXPECT_FALSE(as_expected(lossy, findings(Outcome::perf_regression, Outcome::pass))) << "it is worse than slow";
}

TEST(ZooSlow, TheMatrixIsTheSnapshot) {
  const std::string path = DRAFTPROOF_SOURCE_DIR "/fixtures/snapshots/mutants.txt";
  const std::string found = matrix_text(matrix_of(all_rows()));
  if (const char* accept = std::getenv("DRAFTPROOF_ACCEPT"); accept != nullptr && std::string_view(accept) == "1") {
    std::ofstream(path) << found;
  }
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_TRUE(found == expected.str()) << "the matrix of mutants and checks has changed:\n"
                                       << changed_lines(expected.str(), found)
                                       << "if that is meant, run this test with DRAFTPROOF_ACCEPT=1 and commit "
                                       << path;
}

}  // namespace
}  // namespace draftproof::zoo::zoo_test
