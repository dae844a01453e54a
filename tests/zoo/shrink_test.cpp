// SPDX-License-Identifier: MIT
// What every mutant is caught by, made as small as it gets: still caught in the mutant, and right in the sound loop.
#include "oracle/shrink/shrink.h"

#include <gtest/gtest.h>

#include "oracle/checks/checks.h"
#include "ref/acceptance/rule.h"
#include "tests/oracle/told.h"
#include "zoo/zoo_subject.h"

namespace draftproof::zoo::shrink_test {
namespace {

std::size_t size_of(const Case& c) {
  std::size_t size = c.request.prompt.size() + c.request.stops.size() +
                     static_cast<std::size_t>(c.request.max_new_tokens) + c.variations.size();
  size += c.request.sampling == Sampling{} ? 0 : 1;
  return size;
}

/// Of the mutants every stride-th.
void expect_small_cases(std::size_t stride) {
  int shrunken = 0;
  std::size_t before = 0;
  std::size_t after = 0;
  for (std::size_t at = 0; at < all_mutants().size(); at += stride) {
    const Mutant& mutant = all_mutants()[at];
    for (const Check* const check : all_checks()) {
      const auto failed = first_failed_trial(mutant.parts, check->name);
      if (!failed) continue;
      const Shrunken small = smallest(mutant.parts, *failed, 150);
      ASSERT_EQ(small.finding.outcome, failed->finding.outcome) << mutant.id;
      EXPECT_EQ(small.finding.check, check->name) << mutant.id;
      expect_whole(small.finding);
      EXPECT_LE(size_of(small.smallest), size_of(failed->trial)) << mutant.id << " " << check->name;

      ZooSubject again(failed->model, mutant.parts);
      const Finding repeated = draftproof::examined(again, small.smallest);
      // One generator for the whole process: its next number depends on all draws before.
      const bool of_process = mutant.id == std::string_view("B04");
      EXPECT_TRUE(of_process || repeated.outcome == failed->finding.outcome)
          << mutant.id << " " << check->name << ": " << small.finding.message;

      Case of_sound = small.smallest;
      for (Variation& variation : of_sound.variations) {
        if (const Rule* const rule = find_rule(variation.rule->name)) variation.rule = rule;
      }
      ZooSubject sound(failed->model, {});
      const Finding right = draftproof::examined(sound, of_sound);
      EXPECT_FALSE(right.failure) << mutant.id << " " << check->name << ": " << right.message;
      ++shrunken;
      before += size_of(failed->trial);
      after += size_of(small.smallest);
      break;  // one check of each mutant
    }
  }
  EXPECT_GT(shrunken, 50 / static_cast<int>(stride));
  EXPECT_LT(3 * after, before) << "shrinking hardly shrinks";
}

TEST(ZooShrinkSlow, TheSmallestCaseFailsOnTheMutantPassesOnTheSoundLoopAndIsNoLonger) { expect_small_cases(4); }
TEST(ZooShrinkSweep, TheSmallestCaseOfEveryMutantDoesToo) { expect_small_cases(1); }

}  // namespace
}  // namespace draftproof::zoo::shrink_test
