// SPDX-License-Identifier: MIT
// Every mutant is caught by the checks that must catch it, no control by any; the whole matrix is in
// fixtures/snapshots/mutants.txt. DRAFTPROOF_ACCEPT=1 in the environment rewrites that file.
#include "oracle/mutants/mutants.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace draftproof::mutants {
namespace {

using Row = std::map<std::string, Finding>;

/// Computed once for all tests of this file.
const Row& row_of(const Mutant& mutant) {
  static std::map<std::string, Row> rows;
  const auto [place, fresh] = rows.try_emplace(mutant.name);
  if (fresh) place->second = examined(mutant.parts);
  return place->second;
}

/// The text is right, but what the draft remembers depends on more than the text.
bool only_the_draft_is_wrong(const Mutant& mutant) {
  return mutant.caught_by.size() == 1 && mutant.caught_by[0] == "independence";
}

std::string matrix() {
  std::string text = "# Which check flags which decoder: X flagged, . found nothing, - had nothing to look at.\n";
  text += fmt::format("{:<28}", "");
  for (const std::string& check : check_names()) text += "  " + check;
  text += "\n";
  const auto add = [&](std::span<const Mutant> list) {
    for (const Mutant& mutant : list) {
      text += fmt::format("{:<28}", mutant.name);
      for (const std::string& check : check_names()) {
        const Outcome outcome = row_of(mutant).at(check).outcome;
        const char mark = outcome == Outcome::fail ? 'X' : outcome == Outcome::pass ? '.' : '-';
        text += fmt::format("  {:<{}}", mark, check.size());
      }
      while (text.back() == ' ') text.pop_back();
      text += "\n";
    }
  };
  add(all_mutants());
  text += "\n# Right, however odd it looks.\n";
  add(all_controls());
  return text;
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

TEST(Mutants, EveryMutantIsCaughtByTheChecksThatMustCatchIt) {
  for (const Mutant& mutant : all_mutants()) {
    EXPECT_FALSE(mutant.caught_by.empty()) << mutant.name;
    for (const std::string_view check : mutant.caught_by) {
      EXPECT_EQ(row_of(mutant).at(std::string(check)).outcome, Outcome::fail)
          << mutant.name << " (" << mutant.wrong << ") escapes " << check;
    }
  }
}

TEST(Mutants, NoControlIsFlaggedAndNoneIsVacuous) {
  for (const Mutant& control : all_controls()) {
    EXPECT_TRUE(control.caught_by.empty()) << control.name;
    for (const auto& [check, finding] : row_of(control)) {
      EXPECT_EQ(finding.outcome, Outcome::pass) << control.name << ", " << check << ": " << finding.sentence;
    }
  }
}

TEST(Mutants, EveryCheckHasTwoMutantsItMustCatch) {
  for (const std::string& check : check_names()) {
    int listed = 0;
    for (const Mutant& mutant : all_mutants()) {
      listed += static_cast<int>(std::count(mutant.caught_by.begin(), mutant.caught_by.end(), check));
    }
    EXPECT_GE(listed, 2) << check;
  }
}

TEST(Mutants, AFaultOfTheDraftIsNeverCalledAFaultOfTheText) {
  int drafts = 0;
  for (const Mutant& mutant : all_mutants()) {
    if (!only_the_draft_is_wrong(mutant)) continue;
    ++drafts;
    for (const auto& [check, finding] : row_of(mutant)) {
      if (check == "independence") {
        EXPECT_NE(finding.sentence.find("the draft remembers"), std::string::npos) << finding.sentence;
      } else {
        EXPECT_EQ(finding.outcome, Outcome::pass) << mutant.name << ", " << check << ": " << finding.sentence;
      }
    }
  }
  EXPECT_EQ(drafts, 2);
}

TEST(Mutants, TheMatrixIsTheSnapshot) {
  const std::string path = DRAFTPROOF_SOURCE_DIR "/fixtures/snapshots/mutants.txt";
  const std::string found = matrix();
  fmt::print("{}", found);
  if (const char* accept = std::getenv("DRAFTPROOF_ACCEPT"); accept != nullptr && std::string_view(accept) == "1") {
    std::ofstream(path) << found;
  }
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_TRUE(found == expected.str())
      << "the matrix of mutants and checks has changed:\n" << changed_lines(expected.str(), found)
      << "if that is meant, run this test with DRAFTPROOF_ACCEPT=1 and commit " << path;
}

}  // namespace
}  // namespace draftproof::mutants
