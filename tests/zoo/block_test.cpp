// SPDX-License-Identifier: MIT
// N04: block verification is another rule, and a right one. The checks that compare distributions must pass it, and the
// checks that replay a rule must notice that this is none of the rules they know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracle/checks/checks.h"
#include "oracle/exact/exact_distribution.h"
#include "zoo/parts.h"
#include "zoo/zoo_subject.h"

namespace draftproof::zoo::block_test {
namespace {

/// Rows of two tokens of which one or both are the best, and what is not has no weight at all.
HashShape halves(std::uint64_t seed) { return {.vocabulary = 2, .levels = 2, .spread = 128, .seed = seed}; }

ExactInput input(const char* draft, const Rule& rule) {
  ExactInput input;
  input.request.prompt = {1, 0};
  input.request.sampling.temperature = 1;
  input.request.max_new_tokens = 5;
  input.variation.draft = draft;
  input.variation.draft_max = 4;
  input.variation.rule = &rule;
  return input;
}

/// Returns the mean number of accepted draft tokens in the first round.
Rational accepted_count(Subject& subject, const ExactInput& input) {
  Rational sum = 0;
  EnumeratedSource random;
  do {
    random.begin_path();
    const Trace trace = subject.run(input.request, input.variation, random);
    sum += random.probability() * trace.rounds[0].verdict.accepted;
  } while (random.next_path());
  return sum;
}

const char* const drafts[] = {"perturbed",     "always-reject", "perfect",
                              "scripted:~~~~", "scripted:????", "scripted:+~?-/~~"};

TEST(Block, PreservesTheDistributionAndAcceptsMoreDraftTokens) {
  int better = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    for (const char* draft : drafts) {
      ZooSubject subject(halves(seed), {.random = numbered_by_call});
      EXPECT_EQ(compare_distributions(subject, input(draft, block)).distance, 0) << draft << ", seed " << seed;
      const Rational by_block = accepted_count(subject, input(draft, block));
      const Rational by_token = accepted_count(subject, input(draft, rejection));
      EXPECT_GE(by_block, by_token) << draft << ", seed " << seed;
      better += by_block > by_token;
    }
  }
  EXPECT_GT(better, 5);
}

/// Block verification uses all draft tokens of a round, also those after the last accepted one. Draws keyed by position
/// would repeat their random numbers in the next round, which would then depend on the verdict. `rejection` does not
/// use them.
TEST(Block, NeedsNewRandomNumbersInEveryRound) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    for (const char* draft : drafts) {
      ZooSubject subject(halves(seed), {});
      wrong += compare_distributions(subject, input(draft, block)).distance > 0;
      EXPECT_EQ(compare_distributions(subject, input(draft, rejection)).distance, 0);
    }
  }
  EXPECT_GT(wrong, 5);
}

TEST(Block, IsNotReplayedAsAnotherRule) {
  ZooSubject subject(halves(3), {});
  const ExactInput asked = input("scripted:~~~~", block);
  Trial trial(subject, asked.request, 3, {asked.variation});
  for (const Check* const check : {&acceptance_correct, &rng_accounting}) {
    const Finding finding = check->examine(trial);
    EXPECT_EQ(finding.outcome, Outcome::vacuous) << finding.check;
    EXPECT_THAT(finding.message, testing::HasSubstr("the rule block"));
  }
  for (const Check* const check : all_checks()) {
    EXPECT_NE(check->examine(trial).outcome, Outcome::fail) << check->name << ": " << check->examine(trial).message;
  }
}

}  // namespace
}  // namespace draftproof::zoo::block_test
