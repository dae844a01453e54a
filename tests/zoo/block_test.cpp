// SPDX-License-Identifier: MIT
// The rule `block` in the decode loop: checks pass it, also those that replay a round, and it accepts more.
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
      ZooSubject subject(halves(seed), {});
      EXPECT_EQ(compare_distributions(subject, input(draft, block)).distance, 0) << draft << ", seed " << seed;
      const Rational by_block = accepted_count(subject, input(draft, block));
      const Rational by_token = accepted_count(subject, input(draft, rejection));
      EXPECT_GE(by_block, by_token) << draft << ", seed " << seed;
      better += by_block > by_token;
    }
  }
  EXPECT_GT(better, 5);
}

/// Block verification tosses coins for draft tokens behind the last accepted one. Keyed by position, the next round
/// would toss them again, and would then depend on the verdict of this one.
TEST(Block, EveryFaultChangesTheDistribution) {
  for (const Rule* const wrong : {&block_with_coins_by_position, &block_with_replacement_of_token,
                                  &block_with_share_not_cut, &block_rounded_down, &block_with_coins_from_front}) {
    bool found = false;
    for (std::uint64_t seed = 1; seed <= 12 && !found; ++seed) {
      for (const char* draft : {"perturbed", "scripted:~~~", "scripted:+~?"}) {
        ZooSubject subject({.vocabulary = 3, .levels = 3, .spread = 1, .seed = seed}, {.rule = wrong});
        ExactInput asked = input(draft, block);
        asked.request.max_new_tokens = 4;
        asked.variation.draft_max = 3;
        found = found || compare_distributions(subject, asked).distance > 0;
      }
    }
    EXPECT_TRUE(found) << wrong->name;
  }
}

TEST(Block, IsReplayedByEveryCheck) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    ZooSubject subject({.vocabulary = 6, .levels = 4, .spread = 2, .seed = seed}, {});
    ExactInput asked = input("perturbed", block);
    asked.request.max_new_tokens = 12;
    std::vector<Variation> variations = {asked.variation, asked.variation, asked.variation};
    variations[1].verification = Verification::serial;
    variations[2].draft = "scripted:+&*~&*";
    Trial trial(subject, asked.request, seed, variations);
    for (const Check* const check : {&acceptance_correct, &rng_accounting}) {
      const Finding finding = check->examine(trial);
      EXPECT_EQ(finding.outcome, Outcome::pass) << finding.check << ": " << finding.message;
    }
    for (const Check* const check : all_checks()) {
      EXPECT_NE(check->examine(trial).outcome, Outcome::fail) << check->name << ": " << check->examine(trial).message;
    }
  }
}

}  // namespace
}  // namespace draftproof::zoo::block_test
