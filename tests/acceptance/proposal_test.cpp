// SPDX-License-Identifier: MIT
#include "ref/acceptance/proposal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

/// Every preorder of `size` depths.
std::vector<std::vector<int>> all_trees(int size) {
  std::vector<std::vector<int>> list = {{}};
  for (int i = 0; i < size; ++i) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& depths : list) {
      for (int depth = 0; depth <= (depths.empty() ? 0 : depths.back() + 1); ++depth) {
        longer.push_back(depths);
        longer.back().push_back(depth);
      }
    }
    list = std::move(longer);
  }
  return list;
}

/// A tree as everyone draws it: of each guess its parent, by walking along a stack.
std::vector<int> parents_of(const std::vector<int>& depths) {
  std::vector<int> parents;
  std::vector<int> open = {-1};
  for (int guess = 0; guess < static_cast<int>(depths.size()); ++guess) {
    open.resize(static_cast<std::size_t>(depths[static_cast<std::size_t>(guess)]) + 1);
    parents.push_back(open.back());
    open.push_back(guess);
  }
  return parents;
}

Proposal proposal_of(const std::vector<int>& depths) {
  Proposal proposal;
  for (std::size_t i = 0; i < depths.size(); ++i) {
    proposal.tokens.push_back(static_cast<Token>(10 + i));
    proposal.drawn_from.push_back(Distribution::point(proposal.tokens.back()));
  }
  proposal.depths = depths;
  return proposal;
}

TEST(Proposal, OfEveryTreeOfUpToSevenGuessesKnowsWhoFollowsWhom) {
  long trees = 0;
  for (int size = 0; size <= 7; ++size) {
    for (const std::vector<int>& depths : all_trees(size)) {
      ++trees;
      const std::vector<int> parents = parents_of(depths);
      const Proposal proposal = proposal_of(depths);
      for (int guess = -1; guess < size; ++guess) {
        std::vector<int> children;
        for (int other = 0; other < size; ++other) {
          if (parents[static_cast<std::size_t>(other)] == guess) children.push_back(other);
        }
        std::vector<int> found;
        int child = proposal.first_child(guess);
        for (; child != Proposal::no_guess; child = proposal.next_sibling(child)) {
          found.push_back(child);
          EXPECT_EQ(proposal.child(guess, proposal.tokens[static_cast<std::size_t>(child)]), child);
          EXPECT_EQ(proposal.parent(child), guess);
        }
        EXPECT_EQ(found, children);
        EXPECT_EQ(proposal.child(guess, 9), Proposal::no_guess);
        std::vector<int> path;
        for (int above = guess; above >= 0; above = parents[static_cast<std::size_t>(above)]) path.push_back(above);
        std::reverse(path.begin(), path.end());
        EXPECT_EQ(proposal.path_to(guess), path);
      }
    }
  }
  EXPECT_EQ(trees, 1 + 1 + 2 + 5 + 14 + 42 + 132 + 429);  // Catalan's numbers
}

TEST(Proposal, WithoutDepthsIsTheChain) {
  Proposal chain = proposal_of({0, 1, 2, 3});
  chain.depths.clear();
  const Proposal tree = proposal_of({0, 1, 2, 3});
  for (int guess = -1; guess < 4; ++guess) {
    EXPECT_EQ(chain.depth(guess), tree.depth(guess));
    EXPECT_EQ(chain.first_child(guess), tree.first_child(guess));
    EXPECT_EQ(chain.path_to(guess), tree.path_to(guess));
  }
}

TEST(Proposal, CutsWhatIsBelowAndNothingElse) {
  for (const std::vector<int>& depths : all_trees(6)) {
    const std::vector<int> parents = parents_of(depths);
    for (unsigned ends = 0; ends < 64; ++ends) {
      const auto is_end = [&](int guess) { return guess >= 0 && (ends >> guess & 1) != 0; };
      std::vector<Token> tokens;
      std::vector<int> kept;
      bool chain = true;
      for (int guess = 0; guess < 6; ++guess) {
        bool below = false;
        int above = guess;
        while (above >= 0) {
          above = parents[static_cast<std::size_t>(above)];
          below = below || is_end(above);
        }
        if (below) continue;
        chain = chain && depths[static_cast<std::size_t>(guess)] == static_cast<int>(kept.size());
        kept.push_back(depths[static_cast<std::size_t>(guess)]);
        tokens.push_back(static_cast<Token>(10 + guess));
      }
      Proposal proposal = proposal_of(depths);
      proposal.cut_below([&](Token token) { return is_end(token - 10); });
      EXPECT_EQ(proposal.tokens, tokens);
      EXPECT_EQ(proposal.drawn_from.size(), tokens.size());
      const bool cut = tokens.size() < 6;
      EXPECT_EQ(proposal.depths, !cut ? depths : chain ? std::vector<int>{} : kept);
    }
  }
}

TEST(Guesses, GoBackToAnyGuessOfTheBranchAndPenaltiesSeeTheBranchOnly) {
  const std::vector<float> logits = {0.5f, 1.0f, -0.25f, 0.75f};
  const Sampling sampling{.temperature = 1, .repeat_penalty = 1.5f};
  const std::vector<Token> committed = {1, 3};
  SeededChance chance(5);
  Sampler sampler;
  Guesses guesses(sampling, committed, 0, 10, Purpose::draft, chance, sampler);
  const Token first = guesses.draw(logits);
  EXPECT_TRUE(guesses.proposal().is_chain());
  guesses.back_to(0);
  const Token second = (first + 1) % 4;
  EXPECT_TRUE(guesses.made({}, first));
  EXPECT_FALSE(guesses.made({}, second));
  guesses.name(second);
  guesses.name(first);  // below the second it is another guess
  EXPECT_THAT(guesses.branch(), ElementsAre(second, first));
  guesses.back_to(1);
  guesses.name(second);
  guesses.back_to(2);  // nowhere
  guesses.name(0);
  EXPECT_THAT(guesses.proposal().tokens, ElementsAre(first, second, first, second, 0));
  EXPECT_THAT(guesses.proposal().depths, ElementsAre(0, 0, 1, 1, 2));
  EXPECT_EQ(guesses.proposal().drawn_from[0], distribution_of(logits, sampling, {committed, {}}));
  EXPECT_EQ(guesses.proposal().drawn_from[1], Distribution::point(second));
}

TEST(Guesses, BesideTheLastGuessLeaveTheBranchWhereItIs) {
  const std::vector<float> logits = {0.5f, 1.0f, -0.25f, 0.75f};
  const Sampling sampling{.temperature = 1, .frequency_penalty = 0.5f};
  SeededChance chance(5);
  Sampler sampler;
  Guesses guesses(sampling, {}, 2, 10, Purpose::draft, chance, sampler);
  const Token first = guesses.draw(logits);
  guesses.name_beside((first + 1) % 4);
  guesses.name_beside((first + 2) % 4);
  const Token below = guesses.draw(logits);
  EXPECT_EQ(below, draw(distribution_of(logits, sampling, {{}, std::vector{first}}), {2, 11, Purpose::draft}, chance));
  guesses.name_beside((below + 1) % 4);
  EXPECT_THAT(guesses.branch(), ElementsAre(first, below));
  EXPECT_THAT(guesses.proposal().tokens,
              ElementsAre(first, below, (below + 1) % 4, (first + 1) % 4, (first + 2) % 4));
  EXPECT_THAT(guesses.proposal().depths, ElementsAre(0, 1, 1, 0, 0));
  for (std::size_t guess = 2; guess < 5; ++guess) {
    EXPECT_EQ(guesses.proposal().drawn_from[guess], Distribution::point(guesses.proposal().tokens[guess]));
  }
}

TEST(GuessesDeathTest, OneNumberServesOneGuessAndOneTokenIsOneGuess) {
  const std::vector<float> logits = {0.5f, 1.0f};
  SeededChance chance(5);
  Sampler sampler;
  const Sampling sampling{.temperature = 1};
  Guesses guesses(sampling, {}, 0, 10, Purpose::draft, chance, sampler);
  EXPECT_DEATH(guesses.name_beside(1), "beside a guess");
  guesses.name(1);
  EXPECT_DEATH(guesses.name_beside(1), "different tokens");
  guesses.back_to(0);
  EXPECT_DEATH(guesses.name(1), "different tokens");
  EXPECT_DEATH(guesses.draw(logits), "only the first branch is drawn");
  EXPECT_DEATH(guesses.back_to(1), "a branch begins where the guesses have come to");
  guesses.name(0);
  EXPECT_DEATH(guesses.draw(logits), "only the first branch is drawn");
}

TEST(GuessesDeathTest, NothingIsGuessedInAPlaceAboveADrawnGuess) {
  const std::vector<float> logits = {0.5f, 1.0f};
  SeededChance chance(5);
  Sampler sampler;
  const Sampling sampling{.temperature = 1};
  Guesses guesses(sampling, {}, 0, 10, Purpose::draft, chance, sampler);
  const Token first = guesses.draw(logits);
  const Token below = guesses.draw(logits);
  guesses.name_beside(1 - below);
  guesses.name(0);
  guesses.back_to(0);
  EXPECT_DEATH(guesses.name(1 - first), "does not know what was drawn below it");
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
