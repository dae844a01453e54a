// SPDX-License-Identifier: MIT
#include "ref/acceptance/proposal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "oracle/enumerate.h"
#include "ref/acceptance/draw.h"
#include "tests/acceptance/numbers.h"

namespace draftproof {
namespace {

using testing::ElementsAre;

TEST(Guesses, StateTheDistributionTheyWereDrawnFromAndTheKeysOfTheirPositions) {
  const std::vector<float> logits = {0.5f, 1.0f, -0.25f, 0.75f};
  const Sampling sampling{.temperature = 1, .repeat_penalty = 1.5f};
  const std::vector<Token> committed = {1, 3};
  for (const Purpose noise : {Purpose::draft, Purpose::target}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      SeededChance chance(seed);
      Sampler sampler;
      Guesses guesses(sampling, committed, 4, 100, noise, chance, sampler);
      std::vector<Token> expected;
      for (std::int32_t i = 0; i < 3; ++i) {
        // The penalties see the guesses before this one.
        const Distribution q = distribution_of(logits, sampling, {committed, expected});
        const Token token = draw(q, {4, 100 + i, noise}, chance);
        EXPECT_EQ(guesses.draw(logits), token);
        EXPECT_EQ(guesses.proposal().drawn_from.back(), q);
        expected.push_back(token);
      }
      EXPECT_EQ(guesses.proposal().tokens, expected);
      EXPECT_EQ(guesses.size(), 3);
    }
  }
}

TEST(Guesses, ANamedTokenIsCertainAndTakesAPosition) {
  const std::vector<float> logits = {0.5f, 1.0f, -0.25f, 0.75f};
  const Sampling sampling{.temperature = 1};
  SeededChance chance(5);
  Sampler sampler;
  Guesses guesses(sampling, {}, 0, 10, Purpose::draft, chance, sampler);
  guesses.name(2);
  const Token drawn = guesses.draw(logits);
  EXPECT_EQ(drawn, draw(distribution_of(logits, sampling, {}), {0, 11, Purpose::draft}, chance));
  EXPECT_THAT(guesses.proposal().tokens, ElementsAre(2, drawn));
  EXPECT_EQ(guesses.proposal().drawn_from.front(), Distribution::point(2));
}

TEST(Draw, FromAPointAsksForNoChance) {
  class Forbidden final : public Chance {
   public:
    std::size_t pick(const Key&, std::span<const std::uint64_t>) override {
      ADD_FAILURE() << "chance was asked";
      return 0;
    }
  };
  Forbidden chance;
  EXPECT_EQ(draw(Distribution::point(9), {}, chance), 9);
}

/// Weights on some tokens of six blocks, two of them empty.
Distribution scattered(Numbers& numbers) {
  std::vector<Token> tokens;
  std::vector<std::uint64_t> weights;
  std::uint64_t left = Distribution::total;
  for (Token token = 0; token < 6 * static_cast<Token>(block_size); ++token) {
    if (token / static_cast<Token>(block_size) % 3 == 1 || numbers.next() % 2 == 0) continue;
    tokens.push_back(token);
    weights.push_back(numbers.next() % (left / 16));
    left -= weights.back();
  }
  weights.back() += left;
  return Distribution::exact(tokens, weights);
}

TEST(Draw, ByBlocksIsTheTokenThatOneQuestionAboutAllWeightsGives) {
  Numbers numbers{1};
  for (int round = 0; round < 2000; ++round) {
    const Distribution p = scattered(numbers);
    const Distribution q = scattered(numbers);
    const Residual rest(p, q);
    const Key key = {0, round, Purpose::residual};
    SeededChance chance(3);
    ASSERT_EQ(draw(p, key, chance), p.tokens()[chance.pick(key, p.weights())]);
    ASSERT_EQ(draw(rest, key, chance), rest.tokens()[chance.pick(key, rest.weights())]);
  }
}

TEST(Draw, FromSeveralBlocksHasTheLawOfTheWeights) {
  const std::vector<Token> tokens = {0, 63, 64, 500};
  const std::uint64_t part = Distribution::total / 8;
  const Distribution p = Distribution::exact(tokens, std::vector<std::uint64_t>{part, 2 * part, part, 4 * part});
  std::map<Token, Rational> law;
  EnumeratedChance chance;
  do {
    chance.begin_path();
    const Token token = draw(p, {}, chance);
    law[token] += chance.probability();
  } while (chance.next_path());
  EXPECT_EQ(law, (std::map<Token, Rational>{
                     {0, Rational(1, 8)}, {63, Rational(1, 4)}, {64, Rational(1, 8)}, {500, Rational(1, 2)}}));
}

TEST(DrawDeathTest, ASourceThatAnswersAKeyFromTwoNumbersAborts) {
  class Last final : public Chance {
   public:
    std::size_t pick(const Key&, std::span<const std::uint64_t> weights) override { return weights.size() - 1; }
  };
  class Alternating final : public Chance {
   public:
    std::size_t pick(const Key&, std::span<const std::uint64_t> weights) override {
      return calls_++ == 0 ? 0 : weights.size() - 1;
    }

   private:
    int calls_ = 0;
  };
  const std::vector<Token> tokens = {0, 64};
  const Distribution p =
      Distribution::exact(tokens, std::vector<std::uint64_t>{Distribution::total / 2, Distribution::total / 2});
  Last last;
  EXPECT_EQ(draw(p, {}, last), 64);
  Alternating alternating;
  EXPECT_DEATH(draw(p, {}, alternating), "answers from one number");
}

TEST(DrawDeathTest, FromAnEmptyDistributionAborts) {
  SeededChance chance(1);
  EXPECT_DEATH(draw(Distribution(), {}, chance), "empty distribution");
}

}  // namespace
}  // namespace draftproof
