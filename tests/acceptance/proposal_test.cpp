// SPDX-License-Identifier: MIT
#include "ref/acceptance/proposal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ref/acceptance/draw.h"

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

TEST(DrawDeathTest, FromAnEmptyDistributionAborts) {
  SeededChance chance(1);
  EXPECT_DEATH(draw(Distribution(), {}, chance), "empty distribution");
}

}  // namespace
}  // namespace draftproof
