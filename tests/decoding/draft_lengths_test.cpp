// SPDX-License-Identifier: MIT
#include "ref/decoding/draft_lengths.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

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
    EXPECT_EQ(memory.max(sequences), 8);
    DraftLengths arithmetic(costs(0, 1));
    learn(arithmetic, 8, 4, 300);
    EXPECT_EQ(arithmetic.max(sequences), 0);
  }
}

TEST(DraftLengths, ProposalsBecomeShorterAsSequencesBecomeMore) {
  DraftLengths lengths(costs(20, 1));
  for (int i = 0; i < 400; ++i) learn(lengths, 8, i * 3 % 7, 1);  // 0 to 6 draft tokens are accepted
  int last = lengths.max(1);
  EXPECT_GE(last, 4);
  for (int sequences = 2; sequences <= 256; ++sequences) {
    EXPECT_LE(lengths.max(sequences), last) << sequences;
    last = lengths.max(sequences);
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
    EXPECT_EQ(lengths.max(sequences), best_length) << sequences;
    const DraftLengths::Worth worth = lengths.worth(sequences);
    EXPECT_EQ(worth.speedup() > 1, best_length > 0) << sequences;
    EXPECT_GE(worth.draft_tokens, 1) << sequences;
    EXPECT_NEAR(worth.tokens, 1 + std::min(worth.draft_tokens, 2), 0.02) << sequences;
    EXPECT_NEAR(worth.times, (10 + sequences * (1.0 + worth.draft_tokens)) / (10 + sequences), 1e-3) << sequences;
  }
}

TEST(DraftLengths, WhatIsNeverAcceptedIsNotDraftedAndIsTriedAgainLater) {
  DraftLengths lengths(costs(1, 0.2));
  EXPECT_GT(lengths.max(1), 0);
  learn(lengths, 8, 0, 50);
  EXPECT_EQ(lengths.max(1), 0);
  int passes = 0;
  while (lengths.max(1) == 0 && passes < 5000) {
    lengths.forget();
    ++passes;
  }
  EXPECT_GT(passes, 50);
  EXPECT_LT(passes, 5000);
}

TEST(DraftLengths, ADraftThatCostsMoreThanItGivesIsNotAsked) {
  DraftCosts expensive = costs(1, 0);
  for (std::size_t n = 1; n < expensive.draft[0].size(); ++n) expensive.draft[0][n] = 20;
  EXPECT_EQ(DraftLengths(expensive).max(1), 0);
}

/// A machine whose passes are bound by memory up to a number of rows, then by arithmetic. Its costs were measured with
/// one sequence, so they do not say what more rows and more proposals take. To find out costs some of the time.
struct Machine {
  double memory;
  double each;
  double proposal;  // each draft token of each sequence

  double of(int sequences, int k) const {
    return std::max(memory, each * sequences * (1 + k)) + proposal * sequences * k;
  }
  DraftCosts measured(int draft_max) const {
    DraftCosts costs;
    for (int rows = 1; rows <= 16; ++rows) costs.verify.push_back(of(rows, 0));
    costs.draft.emplace_back();
    for (int k = 0; k <= draft_max; ++k) costs.draft[0].push_back(proposal * k);
    costs.reading = {0};
    return costs;
  }
  /// Tokens per second of rounds in which each draft token is accepted with probability 0.8.
  double rate(int sequences, int k) const { return sequences * (1 - std::pow(0.8, k + 1)) / 0.2 / of(sequences, k); }
};

TEST(DraftLengths, LearnWhatPassesAndProposalsOfSeveralSequencesReallyTake) {
  for (const Machine& machine : {Machine{20, 1, 0}, {20, 1, 3}, {1, 1, 0}, {32, 8, 1}, {32, 6, 4}}) {
    for (const int sequences : {1, 4, 16, 64}) {
      DraftLengths lengths(machine.measured(8));
      std::mt19937 dice(1);
      double tokens = 0;
      double seconds = 0;
      for (int i = 0; i < 4000; ++i) {
        const int k = lengths.max(sequences);
        lengths.learn_pass(sequences * (1 + k), machine.of(sequences, k) - machine.proposal * sequences * k);
        lengths.learn_proposals(sequences, k, machine.proposal * sequences * k);
        lengths.forget();
        for (int s = 0; s < sequences; ++s) {
          int accepted = 0;
          while (accepted < k && dice() % 5 != 0) ++accepted;
          lengths.learn(k, accepted);
          tokens += 1 + accepted;
        }
        seconds += machine.of(sequences, k);
      }
      double best = 0;
      for (int k = 0; k <= 8; ++k) best = std::max(best, machine.rate(sequences, k));
      EXPECT_GT(tokens / seconds, 0.85 * best) << machine.memory << ", " << machine.each << " * rows, proposals "
                                               << machine.proposal << ", " << sequences << " sequences";
    }
  }
}

TEST(DraftLengths, InASchedulerTheyChangeNoTextAndAreKept) {
  const auto target = make_hash_model({.vocabulary = 12, .levels = 3, .seed = 8});
  for (const double proposal : {0.0, 1e9}) {
    DraftCosts given = costs(4, 0, 5);
    for (std::size_t n = 1; n < given.draft[0].size(); ++n) given.draft[0][n] = proposal;
    DraftLengths lengths(given);
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
      EXPECT_TRUE(proposal > 0 ? longest == 0 : longest > 0 && longest <= 5) << longest;
    }
  }
}

}  // namespace
}  // namespace draftproof::draft_lengths_test
