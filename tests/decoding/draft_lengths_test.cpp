// SPDX-License-Identifier: MIT
#include "ref/decoding/draft_lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "ref/base/stopwatch.h"
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

using Text = DraftLengths::Text;

std::vector<int> choose(DraftLengths& lengths, std::vector<Text>& texts, int other_rows = 0) {
  std::vector<Text*> pointers;
  for (Text& text : texts) pointers.push_back(&text);
  return lengths.choose(pointers, other_rows);
}

DraftLengths::Proposals proposals_of(std::span<const int> lengths) {
  DraftLengths::Proposals proposals;
  for (const int length : lengths) proposals.add(length);
  return proposals;
}

TEST(DraftLengths, BoundByMemoryTheLongestProposalPaysAndBoundByArithmeticNone) {
  for (const int count : {1, 4, 64}) {
    std::vector<Text> texts(static_cast<std::size_t>(count));
    DraftLengths memory(costs(1, 0));
    EXPECT_EQ(choose(memory, texts), std::vector<int>(texts.size(), 8));
    DraftLengths arithmetic(costs(0, 1));
    EXPECT_EQ(choose(arithmetic, texts), std::vector<int>(texts.size(), 0));
  }
}

TEST(DraftLengths, OfTextsThatAreAcceptedMoreOftenAreLonger) {
  DraftLengths lengths(costs(20, 1));
  std::vector<Text> texts(3);
  for (int i = 0; i < 100; ++i) {
    for (int text = 0; text < 3; ++text) lengths.learn(texts[static_cast<std::size_t>(text)], 8, 2 * text);
  }
  const std::vector<int> chosen = choose(lengths, texts);
  EXPECT_LE(chosen[0], 1);
  EXPECT_GE(chosen[1], 2);
  EXPECT_GE(chosen[2], 4);
}

TEST(DraftLengths, AreTheBestOfAllLengthsOfThreeTexts) {
  constexpr int draft_max = 3;
  std::mt19937 dice(5);
  for (int machine = 0; machine < 200; ++machine) {
    DraftCosts given = costs(static_cast<double>(dice() % 30), 1 + static_cast<double>(dice() % 4), draft_max);
    for (int k = 0; k <= draft_max; ++k) given.draft[0][static_cast<std::size_t>(k)] = 0.1 * k * (dice() % 10);
    std::ranges::sort(given.draft[0]);
    DraftLengths lengths(given);
    std::vector<Text> texts(3);
    for (int i = 0; i < 60; ++i) {
      for (Text& text : texts) lengths.learn(text, draft_max, static_cast<int>(dice() % (draft_max + 1)));
    }
    const int other_rows = static_cast<int>(dice() % 4);
    const auto rate = [&](std::span<const int> of) {
      double tokens = 3.0 + other_rows;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        double gives = 1;
        for (int d = 0; d < of[i]; ++d) tokens += gives *= lengths.share(texts[i], static_cast<std::size_t>(d));
      }
      return tokens / lengths.seconds(3 + other_rows, proposals_of(of));
    };
    double best = 0;
    for (int a = 0; a <= draft_max; ++a) {
      for (int b = 0; b <= draft_max; ++b) {
        for (int c = 0; c <= draft_max; ++c) best = std::max(best, rate(std::array{a, b, c}));
      }
    }
    EXPECT_NEAR(rate(choose(lengths, texts, other_rows)) / best, 1, 0.002) << machine;
  }
}

/// `late`: what drafts take to observe first what was decoded without them, two passes.
TEST(DraftLengths, WhatIsNeverAcceptedIsTriedAgainInAHundredthOfTheTimeWhateverDraftsHaveToObserveFirst) {
  for (const double late : {0.0, 24.0}) {
    DraftCosts given = costs(10, 1);
    for (std::size_t n = 1; n < given.draft[0].size(); ++n) given.draft[0][n] = static_cast<double>(n);
    DraftLengths lengths(given);
    std::vector<Text> texts(2);
    for (Text& text : texts) {
      for (int i = 0; i < 300; ++i) lengths.learn(text, 1, 0);
    }
    const double before = lengths.seconds(2, {.longest = 4, .draft_tokens = 4});
    double plain = 0;
    double all = 0;
    std::vector<int> tries(2);
    for (int pass = 0; pass < 10000; ++pass) {
      const std::vector<int> chosen = choose(lengths, texts);
      const DraftLengths::Proposals proposals = proposals_of(chosen);
      const double late_now = proposals.draft_tokens > 0 ? late : 0;
      const double seconds = 12 + proposals.draft_tokens;
      lengths.learn_pass(2 + proposals.draft_tokens, seconds, proposals, proposals.longest, late_now);
      plain += 12;
      all += seconds + proposals.longest + late_now;
      for (std::size_t i = 0; i < 2; ++i) {
        tries[i] += chosen[i] > 0 ? 1 : 0;
        lengths.learn(texts[i], chosen[i], 0);
      }
    }
    EXPECT_GT(tries[0], 5) << late;
    EXPECT_NEAR(tries[0], tries[1], 1) << late;
    EXPECT_LT(all / plain, 1.0105) << late;
    EXPECT_NEAR(lengths.seconds(2, {.longest = 4, .draft_tokens = 4}), before, 0.5) << "no cost of proposals, " << late;
  }
}

TEST(DraftLengths, WhereNearlyAllWouldHaveToBeAcceptedNothingIsTried) {
  DraftCosts given = costs(0, 1);
  for (std::size_t n = 1; n < given.draft[0].size(); ++n) given.draft[0][n] = 0.1;
  DraftLengths lengths(given);
  std::vector<Text> texts(16);
  for (int pass = 0; pass < 5000; ++pass) {
    ASSERT_EQ(choose(lengths, texts), std::vector<int>(16, 0));
    lengths.learn_pass(16, 16, {}, 0);
  }
}

TEST(DraftLengths, ADraftThatCostsMoreThanItGivesIsNotAsked) {
  DraftCosts expensive = costs(1, 0);
  for (std::size_t n = 1; n < expensive.draft[0].size(); ++n) expensive.draft[0][n] = 20;
  DraftLengths lengths(expensive);
  std::vector<Text> texts(1);
  EXPECT_EQ(choose(lengths, texts), std::vector{0});
}

TEST(DraftLengths, ADraftThatTakesMoreThanItWasMeasuredToTakeIsNotAskedForLong) {
  DraftCosts given = costs(1, 0);
  for (std::size_t n = 1; n < given.draft[0].size(); ++n) given.draft[0][n] = 0.01 * static_cast<double>(n);
  DraftLengths lengths(given);
  std::vector<Text> texts(2);
  int asked = 0;
  for (int pass = 0; pass < 1000; ++pass) {
    const std::vector<int> chosen = choose(lengths, texts);
    const DraftLengths::Proposals proposals = proposals_of(chosen);
    asked += proposals.draft_tokens > 0 ? 1 : 0;
    lengths.learn_pass(2 + proposals.draft_tokens, 1, proposals, 20.0 * proposals.longest);
    for (std::size_t i = 0; i < 2; ++i) lengths.learn(texts[i], chosen[i], chosen[i]);
  }
  EXPECT_GE(asked, 1);
  EXPECT_LE(asked, 20);
}

TEST(DraftLengths, ARoundIsWorthWhatItsFormulaSays) {
  DraftLengths lengths(costs(10, 1));
  Text text;
  for (int i = 0; i < 2000; ++i) lengths.learn(text, 8, 2);  // the first two are always accepted, the third never
  for (int texts = 1; texts <= 32; ++texts) {
    const DraftLengths::Worth worth = lengths.worth(texts);
    EXPECT_GE(worth.draft_tokens, 1) << texts;
    EXPECT_NEAR(worth.tokens, 1 + std::min(worth.draft_tokens, 2), 0.02) << texts;
    EXPECT_NEAR(worth.times, (10 + texts * (1.0 + worth.draft_tokens)) / (10 + texts), 0.01) << texts;
    double best = 0;
    for (int k = 1; k <= 8; ++k) best = std::max(best, (1 + std::min(k, 2)) * (10.0 + texts) / (10 + texts * (1 + k)));
    EXPECT_NEAR(worth.speedup(), best, 0.02) << texts;
  }
}

/// A machine whose passes are bound by memory up to a number of rows, then by arithmetic. Its costs were measured with
/// one text, so they do not say what more rows and more proposals take.
struct Machine {
  double memory;
  double each;
  double step;  // a step of all proposals together, in passes of as many rows

  double pass(int rows) const { return std::max(memory, each * rows); }
  double proposals(const DraftLengths::Proposals& of) const {
    return of.draft_tokens == 0 ? 0 : of.longest * step * pass((of.draft_tokens + of.longest - 1) / of.longest);
  }
  DraftCosts measured(int draft_max) const {
    DraftCosts costs;
    for (int rows = 1; rows <= 16; ++rows) costs.verify.push_back(pass(rows));
    costs.draft.emplace_back();
    for (int k = 0; k <= draft_max; ++k) costs.draft[0].push_back(proposals({k, k}));
    costs.reading = {0};
    return costs;
  }
};

/// Texts that come and go. Every draft token of a text is accepted with the same probability, drawn from `shares` when
/// the text begins. Clocks err.
class Load {
 public:
  Load(const Machine& machine, std::vector<double> shares, int texts)
      : machine_(machine), shares_(std::move(shares)), count_(texts) {}

  /// Tokens per second with so many draft tokens a round, or as DraftLengths choose.
  double rate(std::optional<int> fixed) const {
    DraftLengths lengths(machine_.measured(8));
    std::mt19937 dice(7);
    std::uniform_real_distribution<double> share;
    struct Running {
      std::mt19937 dice;  // its texts are the same however they are decoded
      double accepted = 0;
      int tokens_left = 0;
    };
    std::vector<Running> running(static_cast<std::size_t>(count_));
    std::vector<Text> texts(running.size());
    double tokens = 0;
    double seconds = 0;
    for (std::size_t i = 0; i < running.size(); ++i) running[i].dice.seed(static_cast<unsigned>(i));
    while (tokens < 6000 + 300 * count_) {
      for (std::size_t i = 0; i < running.size(); ++i) {
        if (running[i].tokens_left > 0) continue;
        running[i].accepted = shares_[running[i].dice() % shares_.size()];
        running[i].tokens_left = 50 + static_cast<int>(running[i].dice() % 300);
        texts[i] = {};
      }
      const std::vector<int> chosen = fixed ? std::vector<int>(texts.size(), *fixed) : choose(lengths, texts);
      const DraftLengths::Proposals proposals = proposals_of(chosen);
      const int rows = count_ + proposals.draft_tokens;
      seconds += machine_.pass(rows) + machine_.proposals(proposals);
      const double error = 1 + 0.1 * share(dice);
      lengths.learn_pass(rows, machine_.pass(rows) * error, proposals, machine_.proposals(proposals) * error);
      for (std::size_t i = 0; i < running.size(); ++i) {
        int accepted = 0;
        while (accepted < chosen[i] && share(dice) < running[i].accepted) ++accepted;
        lengths.learn(texts[i], chosen[i], accepted);
        tokens += 1 + accepted;
        running[i].tokens_left -= 1 + accepted;
      }
    }
    return tokens / seconds;
  }

 private:
  Machine machine_;
  std::vector<double> shares_;
  int count_;
};

TEST(DraftLengths, AreNeverMuchSlowerThanPlainDecodingAndNearlyAsFastAsTheBestLengthForAll) {
  const std::vector<double> loads[] = {{0.8}, {0.5}, {0.3}, {0}, {0.95, 0.1}};
  for (const Machine& machine : {Machine{20, 1, 0}, {20, 1, 0.05}, {32, 8, 0}, {32, 8, 0.05}, {1, 1, 0.1}}) {
    for (const std::vector<double>& shares : loads) {
      for (const int texts : {1, 4, 16, 64}) {
        const Load load(machine, shares, texts);
        const double plain = load.rate(0);
        double best = plain;
        for (const int k : {1, 2, 4, 8}) best = std::max(best, load.rate(k));
        const double chosen = load.rate(std::nullopt);
        const auto where = ::testing::Message() << machine.memory << ", " << machine.each << " * rows, a step "
                                                << machine.step << ", shares from " << shares[0] << ", " << texts
                                                << " texts: plain " << plain << ", best " << best;
        EXPECT_GT(chosen, 0.97 * plain) << where;
        EXPECT_GT(chosen, 0.88 * best) << where;
      }
    }
  }
}

TEST(DraftLengths, OfMixedTextsAreFasterThanAnyLengthForAll) {
  const Load load({20, 1, 0}, {0.95, 0.1}, 16);
  double best = 0;
  for (int k = 0; k <= 8; ++k) best = std::max(best, load.rate(k));
  EXPECT_GT(load.rate(std::nullopt), 1.1 * best);
}

TEST(DraftLengths, GrowAgainWhenAnotherProgramNoLongerSlowsTheMachine) {
  const Machine machine{20, 1, 0};
  DraftLengths lengths(machine.measured(8));
  std::vector<Text> texts(4);
  std::vector<int> before;
  for (int pass = 0; pass < 900; ++pass) {
    const std::vector<int> chosen = choose(lengths, texts);
    if (pass == 299) before = chosen;
    const DraftLengths::Proposals proposals = proposals_of(chosen);
    const int rows = 4 + proposals.draft_tokens;
    const double busy = pass >= 300 && pass < 600 ? 3 : 1;
    lengths.learn_pass(rows, busy * machine.pass(rows), proposals, 0);
    for (std::size_t i = 0; i < texts.size(); ++i) lengths.learn(texts[i], chosen[i], chosen[i] - pass % 2);
  }
  EXPECT_GE(proposals_of(choose(lengths, texts)).draft_tokens, proposals_of(before).draft_tokens - 1);
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
      const double share = lengths.share(sequences[i]->shown_by_draft(), 0);
      EXPECT_TRUE(proposal > 0 ? share < 0.85 : share > 0.9) << "what was accepted is learned: " << share;
    }
    EXPECT_LT(lengths.seconds(1, {}), 4) << "what passes take is learned";
  }
}

/// Its drafts take time to observe something first, and say so.
class LateDrafter final : public Drafter {
 public:
  std::unique_ptr<Draft> open(int, int) override { return nullptr; }
  void propose(std::span<ProposeJob> jobs) override {
    double seconds = 0;
    {
      const Stopwatch watch(seconds);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    Drafter::propose(jobs);
    for (ProposeJob& job : jobs) job.late_seconds = seconds;
  }
};

TEST(DraftLengths, InASchedulerLearnWhatProposalsTakeWithoutWhatDraftsObserveFirst) {
  const auto target = make_hash_model({.vocabulary = 12, .levels = 3, .seed = 8});
  DraftCosts given = costs(4, 0, 5);
  for (std::size_t n = 1; n < given.draft[0].size(); ++n) given.draft[0][n] = 0.1;
  DraftLengths lengths(given);
  const Asked request = asked({1, 2, 3}, 12, 5);
  PerfectDraft draft(*target, 64, 5);
  PhiloxSource random(9);
  LateDrafter drafter;
  Sequence sequence(
      Collaborators{.target = *target, .draft = draft, .rule = matching, .random = random, .drafter = &drafter},
      request, request, Recording::counts);
  Scheduler scheduler(*target, {}, nullptr, &lengths);
  scheduler.add(sequence);
  while (scheduler.step()) {
  }
  EXPECT_GT(sequence.trace().rounds.front().proposal.size(), 0);
  EXPECT_LT(lengths.seconds(1, {.longest = 1, .draft_tokens = 1}) - lengths.seconds(2, {}), 0.01);
}

}  // namespace
}  // namespace draftproof::draft_lengths_test
