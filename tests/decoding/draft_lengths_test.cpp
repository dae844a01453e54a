// SPDX-License-Identifier: MIT
#include "ref/decoding/draft_lengths.h"

#include <gtest/gtest.h>

#include "ref/decoding/scheduler.h"
#include "tests/decoding/support.h"

namespace draftproof::draft_lengths_test {
namespace {

/// Passes of `fixed` plus `each` for every row; proposals are free.
DraftCosts costs(double fixed, double each, int draft_max = 8) {
  DraftCosts costs;
  for (int rows = 1; rows <= 16; ++rows) costs.verify.push_back(fixed + each * rows);
  costs.draft = {std::vector<double>(static_cast<std::size_t>(draft_max) + 1, 0.0)};
  costs.reading = {0};
  return costs;
}

void learn(DraftLengths& lengths, int drafted, int accepted, int times) {
  for (int i = 0; i < times; ++i) {
    lengths.learn(drafted, accepted);
    lengths.forget();
  }
}

TEST(DraftLengths, BoundByMemoryTheLongestProposalPaysAndBoundByArithmeticNone) {
  for (const int sequences : {1, 4, 64}) {
    DraftLengths memory(costs(1, 0));
    learn(memory, 8, 8, 300);
    EXPECT_EQ(memory.most(sequences), 8);
    DraftLengths arithmetic(costs(0, 1));
    learn(arithmetic, 8, 4, 300);
    EXPECT_EQ(arithmetic.most(sequences), 0);
  }
}

TEST(DraftLengths, ProposalsBecomeShorterAsSequencesBecomeMore) {
  DraftLengths lengths(costs(20, 1));
  for (int i = 0; i < 400; ++i) learn(lengths, 8, i * 3 % 7, 1);  // 0 to 6 draft tokens are accepted
  int last = lengths.most(1);
  EXPECT_GE(last, 4);
  for (int sequences = 2; sequences <= 256; ++sequences) {
    EXPECT_LE(lengths.most(sequences), last) << sequences;
    last = lengths.most(sequences);
  }
  EXPECT_LE(last, 1);
}

TEST(DraftLengths, IsTheBestOfAllLengthsByItsOwnFormula) {
  DraftLengths lengths(costs(10, 1));
  for (int i = 0; i < 2000; ++i) {  // the first two are always accepted, the third never
    lengths.learn(8, 2);
    lengths.forget();
  }
  for (int sequences = 1; sequences <= 32; ++sequences) {
    double best = 0;
    int best_length = 0;
    for (int k = 0; k <= 8; ++k) {
      const double tokens = 1 + std::min(k, 2);
      const double rate = tokens / (10 + sequences * (1 + k));
      if (rate > best + 1e-12) {
        best = rate;
        best_length = k;
      }
    }
    EXPECT_EQ(lengths.most(sequences), best_length) << sequences;
  }
}

TEST(DraftLengths, WhatIsNeverAcceptedIsNotDraftedAndIsTriedAgainLater) {
  DraftLengths lengths(costs(1, 0.2));
  EXPECT_GT(lengths.most(1), 0);
  learn(lengths, 8, 0, 50);
  EXPECT_EQ(lengths.most(1), 0);
  int passes = 0;
  while (lengths.most(1) == 0 && passes < 5000) {
    lengths.forget();
    ++passes;
  }
  EXPECT_GT(passes, 50);
  EXPECT_LT(passes, 5000);
}

TEST(DraftLengths, ADraftThatCostsMoreThanItGivesIsNotAsked) {
  DraftCosts expensive = costs(1, 0);
  for (std::size_t n = 1; n < expensive.draft[0].size(); ++n) expensive.draft[0][n] = 20;
  EXPECT_EQ(DraftLengths(expensive).most(1), 0);
}

TEST(DraftLengths, InASchedulerTheyChangeNoTextAndAreKept) {
  const auto target = make_hash_model({.vocabulary = 12, .levels = 3, .seed = 8});
  for (const double each : {0.0, 0.3, 1.0}) {
    DraftLengths lengths(costs(4, each, 5));
    std::vector<std::unique_ptr<Draft>> drafts;
    std::vector<std::unique_ptr<PhiloxSource>> randoms;
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<std::vector<Token>> expected;
    Scheduler scheduler(*target, {.rows_per_pass = 16}, nullptr, &lengths);
    for (int i = 0; i < 6; ++i) {
      Asked request = asked({1, 2, 3 + i}, 30, 5, {.temperature = 1});
      request.sequence = i;
      expected.push_back(plain_output(*target, request, 9));
      drafts.push_back(std::make_unique<PerfectDraft>(*target, 64, 5));
      randoms.push_back(std::make_unique<PhiloxSource>(9));
      sequences.push_back(std::make_unique<Sequence>(Collaborators{*target, *drafts.back(), matching, *randoms.back()},
                                                     request, request, Recording::counts));
      scheduler.add(*sequences.back());
    }
    while (scheduler.step()) {
    }
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      EXPECT_EQ(sequences[i]->trace().output, expected[i]);
      int longest = 0;
      for (const Round& round : sequences[i]->trace().rounds) longest = std::max(longest, round.proposal.size());
      EXPECT_TRUE(each > 0.0 || longest == 5) << longest;
      EXPECT_TRUE(each < 1.0 || longest < 5) << longest;
    }
  }
}

}  // namespace
}  // namespace draftproof::draft_lengths_test
