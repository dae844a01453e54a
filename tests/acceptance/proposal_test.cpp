// SPDX-License-Identifier: MIT
#include "ref/acceptance/proposal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "oracle/exact/enumerate.h"
#include "ref/acceptance/draw.h"
#include "ref/acceptance/sampler.h"
#include "tests/acceptance/numbers.h"

namespace draftproof::proposal_test {
namespace {

using testing::ElementsAre;

TEST(ProposalBuilder, RecordsTheDistributionsAndDrawsWithTheKeysOfThePositions) {
  const std::vector<float> logits = {0.5f, 1.0f, -0.25f, 0.75f};
  const Sampling sampling{.temperature = 1, .repeat_penalty = 1.5f};
  const std::vector<Token> committed = {1, 3};
  for (const Purpose noise : {Purpose::draft, Purpose::target}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      PhiloxSource random(seed);
      Sampler sampler;
      ProposalBuilder builder(sampling, committed, 4, 100, noise, random, sampler);
      std::vector<Token> expected;
      for (std::int32_t i = 0; i < 3; ++i) {
        // The penalties see the draft tokens before this one.
        const Distribution q = compute_distribution(logits, sampling, {committed, expected});
        const Token token = draw(q, draft_key(4, 100, i, noise), random);
        EXPECT_EQ(builder.draw(logits), token);
        EXPECT_EQ(builder.proposal().drawn_from.back(), q);
        expected.push_back(token);
      }
      EXPECT_EQ(builder.proposal().tokens, expected);
      EXPECT_EQ(builder.size(), 3);
    }
  }
}

TEST(ProposalBuilder, AnAddedTokenIsDeterministicAndTakesAPosition) {
  const std::vector<float> logits = {0.5f, 1.0f, -0.25f, 0.75f};
  const Sampling sampling{.temperature = 1};
  PhiloxSource random(5);
  Sampler sampler;
  ProposalBuilder builder(sampling, {}, 0, 10, Purpose::draft, random, sampler);
  builder.add_token(2);
  const Token drawn = builder.draw(logits);
  EXPECT_EQ(drawn, draw(compute_distribution(logits, sampling, {}), {0, 11, Purpose::draft, 1}, random));
  EXPECT_THAT(builder.proposal().tokens, ElementsAre(2, drawn));
  EXPECT_EQ(builder.proposal().drawn_from.front(), Distribution::point(2));
}

/// Returns every preorder sequence of `size` depths.
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

/// Returns the parent of each draft token, computed with a stack.
std::vector<int> parents_of(const std::vector<int>& depths) {
  std::vector<int> parents;
  std::vector<int> open = {-1};
  for (int draft_token = 0; draft_token < static_cast<int>(depths.size()); ++draft_token) {
    open.resize(static_cast<std::size_t>(depths[draft_token]) + 1);
    parents.push_back(open.back());
    open.push_back(draft_token);
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

TEST(Proposal, KnowsParentsChildrenAndSiblingsInEveryTreeOfUpToSevenDraftTokens) {
  long trees = 0;
  for (int size = 0; size <= 7; ++size) {
    for (const std::vector<int>& depths : all_trees(size)) {
      ++trees;
      const std::vector<int> parents = parents_of(depths);
      const Proposal proposal = proposal_of(depths);
      for (int draft_token = -1; draft_token < size; ++draft_token) {
        std::vector<int> children;
        for (int other = 0; other < size; ++other) {
          if (parents[other] == draft_token) children.push_back(other);
        }
        std::vector<int> found;
        int child = proposal.first_child(draft_token);
        for (; child != Proposal::no_node; child = proposal.next_sibling(child)) {
          found.push_back(child);
          EXPECT_EQ(proposal.child(draft_token, proposal.tokens[child]), child);
          EXPECT_EQ(proposal.parent(child), draft_token);
        }
        EXPECT_EQ(found, children);
        EXPECT_EQ(proposal.child(draft_token, 9), Proposal::no_node);
        std::vector<int> path;
        for (int node = draft_token; node >= 0; node = parents[node]) path.push_back(node);
        std::reverse(path.begin(), path.end());
        EXPECT_EQ(proposal.path_to(draft_token), path);
      }
    }
  }
  EXPECT_EQ(trees, 1 + 1 + 2 + 5 + 14 + 42 + 132 + 429);  // Catalan's numbers
}

TEST(Proposal, WithoutDepthsIsAChain) {
  Proposal chain = proposal_of({0, 1, 2, 3});
  chain.depths.clear();
  const Proposal tree = proposal_of({0, 1, 2, 3});
  for (int draft_token = -1; draft_token < 4; ++draft_token) {
    EXPECT_EQ(chain.depth(draft_token), tree.depth(draft_token));
    EXPECT_EQ(chain.first_child(draft_token), tree.first_child(draft_token));
    EXPECT_EQ(chain.path_to(draft_token), tree.path_to(draft_token));
  }
}

TEST(Proposal, CutsDescendantsAndNothingElse) {
  for (const std::vector<int>& depths : all_trees(6)) {
    const std::vector<int> parents = parents_of(depths);
    for (unsigned ends = 0; ends < 64; ++ends) {
      const auto is_end = [&](int draft_token) { return draft_token >= 0 && (ends >> draft_token & 1) != 0; };
      std::vector<Token> tokens;
      std::vector<int> kept;
      bool chain = true;
      for (int draft_token = 0; draft_token < 6; ++draft_token) {
        bool below = false;
        int above = draft_token;
        while (above >= 0) {
          above = parents[above];
          below = below || is_end(above);
        }
        if (below) continue;
        chain = chain && depths[draft_token] == static_cast<int>(kept.size());
        kept.push_back(depths[draft_token]);
        tokens.push_back(static_cast<Token>(10 + draft_token));
      }
      Proposal proposal = proposal_of(depths);
      proposal.prune(
          [&](int node) { return is_end(proposal.tokens[node] - 10) ? Proposal::Kept::alone : Proposal::Kept::whole; });
      EXPECT_EQ(proposal.tokens, tokens);
      EXPECT_EQ(proposal.drawn_from.size(), tokens.size());
      EXPECT_EQ(proposal.cut, 6 - static_cast<int>(tokens.size()));
      const bool cut = tokens.size() < 6;
      EXPECT_EQ(proposal.depths, !cut ? depths : chain ? std::vector<int>{} : kept);
    }
  }
}

TEST(ProposalBuilder, RewindsToAnyDraftTokenOfTheBranchAndPenaltiesSeeTheBranchOnly) {
  const std::vector<float> logits = {0.5f, 1.0f, -0.25f, 0.75f};
  const Sampling sampling{.temperature = 1, .repeat_penalty = 1.5f};
  const std::vector<Token> committed = {1, 3};
  PhiloxSource random(5);
  Sampler sampler;
  ProposalBuilder builder(sampling, committed, 0, 10, Purpose::draft, random, sampler);
  const Token first = builder.draw(logits);
  EXPECT_TRUE(builder.proposal().is_chain());
  builder.rewind_to(0);
  const Token second = (first + 1) % 4;
  EXPECT_TRUE(builder.contains({}, first));
  EXPECT_FALSE(builder.contains({}, second));
  builder.add_token(second);
  builder.add_token(first);  // as a child of the second token it is another draft token
  EXPECT_THAT(builder.branch(), ElementsAre(second, first));
  builder.rewind_to(1);
  builder.add_token(second);
  builder.rewind_to(2);  // no change
  builder.add_token(0);
  EXPECT_THAT(builder.proposal().tokens, ElementsAre(first, second, first, second, 0));
  EXPECT_THAT(builder.proposal().depths, ElementsAre(0, 0, 1, 1, 2));
  EXPECT_EQ(builder.proposal().drawn_from[0], compute_distribution(logits, sampling, {committed, {}}));
  EXPECT_EQ(builder.proposal().drawn_from[1], Distribution::point(second));
}

TEST(ProposalBuilder, AddingASiblingDoesNotChangeTheBranch) {
  const std::vector<float> logits = {0.5f, 1.0f, -0.25f, 0.75f};
  const Sampling sampling{.temperature = 1, .frequency_penalty = 0.5f};
  PhiloxSource random(5);
  Sampler sampler;
  ProposalBuilder builder(sampling, {}, 2, 10, Purpose::draft, random, sampler);
  const Token first = builder.draw(logits);
  builder.add_sibling((first + 1) % 4);
  builder.add_sibling((first + 2) % 4);
  const Token below = builder.draw(logits);
  EXPECT_EQ(below,
            draw(compute_distribution(logits, sampling, {{}, std::vector{first}}), {2, 11, Purpose::draft, 1}, random));
  builder.add_sibling((below + 1) % 4);
  EXPECT_THAT(builder.branch(), ElementsAre(first, below));
  EXPECT_THAT(builder.proposal().tokens, ElementsAre(first, below, (below + 1) % 4, (first + 1) % 4, (first + 2) % 4));
  EXPECT_THAT(builder.proposal().depths, ElementsAre(0, 1, 1, 0, 0));
  for (std::size_t draft_token = 2; draft_token < 5; ++draft_token) {
    EXPECT_EQ(builder.proposal().drawn_from[draft_token], Distribution::point(builder.proposal().tokens[draft_token]));
  }
}

TEST(ProposalBuilderDeathTest, DrawingOffTheFirstBranchAndRepeatedSiblingsAbort) {
  const std::vector<float> logits = {0.5f, 1.0f};
  PhiloxSource random(5);
  Sampler sampler;
  const Sampling sampling{.temperature = 1};
  ProposalBuilder builder(sampling, {}, 0, 10, Purpose::draft, random, sampler);
  EXPECT_DEATH(builder.add_sibling(1), "a sibling is added to a draft token");
  builder.add_token(1);
  EXPECT_DEATH(builder.add_sibling(1), "different tokens");
  builder.rewind_to(0);
  EXPECT_DEATH(builder.add_token(1), "different tokens");
  EXPECT_DEATH(builder.draw(logits), "draft tokens are drawn only on the first branch");
  EXPECT_DEATH(builder.rewind_to(1), "a branch rewinds to a depth that it has");
  builder.add_token(0);
  EXPECT_DEATH(builder.draw(logits), "draft tokens are drawn only on the first branch");
}

TEST(ProposalBuilderDeathTest, AddingATokenAboveADrawnDraftTokenAborts) {
  const std::vector<float> logits = {0.5f, 1.0f};
  PhiloxSource random(5);
  Sampler sampler;
  const Sampling sampling{.temperature = 1};
  ProposalBuilder builder(sampling, {}, 0, 10, Purpose::draft, random, sampler);
  const Token first = builder.draw(logits);
  const Token below = builder.draw(logits);
  builder.add_sibling(1 - below);
  builder.add_token(0);
  builder.rewind_to(0);
  EXPECT_DEATH(builder.add_token(1 - first), "siblings are added before any deeper draft token is drawn");
}

TEST(Draw, FromAPointUsesNoRandomness) {
  class Forbidden final : public RandomSource {
   public:
    std::size_t sample_index(const Key&, std::span<const std::uint64_t>) override {
      ADD_FAILURE() << "the random source was called";
      return 0;
    }
  };
  Forbidden random;
  EXPECT_EQ(draw(Distribution::point(9), {}, random), 9);
}

/// Weights on some tokens of six token blocks, two of which are empty.
Distribution scattered(Numbers& numbers) {
  std::vector<Token> tokens;
  std::vector<std::uint64_t> weights;
  std::uint64_t left = Distribution::total;
  for (Token token = 0; token < 6 * static_cast<Token>(token_block_size); ++token) {
    if (token / static_cast<Token>(token_block_size) % 3 == 1 || numbers.next() % 2 == 0) continue;
    tokens.push_back(token);
    weights.push_back(numbers.next() % (left / 16));
    left -= weights.back();
  }
  weights.back() += left;
  return Distribution::exact(tokens, weights);
}

TEST(Draw, ByTokenBlocksEqualsOneDrawFromAllWeights) {
  Numbers numbers{1};
  for (int round = 0; round < 2000; ++round) {
    const Distribution p = scattered(numbers);
    const Distribution q = scattered(numbers);
    const Residual rest(p, q);
    const Key key = {0, round, Purpose::residual};
    PhiloxSource random(3);
    ASSERT_EQ(draw(p, key, random), p.tokens()[random.sample_index(key, p.weights())]);
    ASSERT_EQ(draw(rest, key, random), rest.tokens()[random.sample_index(key, rest.weights())]);
  }
}

TEST(Draw, FromSeveralBlocksHasTheDistributionOfTheWeights) {
  const std::vector<Token> tokens = {0, 63, 64, 500};
  const std::uint64_t part = Distribution::total / 8;
  const Distribution p = Distribution::exact(tokens, std::vector<std::uint64_t>{part, 2 * part, part, 4 * part});
  std::map<Token, Rational> distribution;
  EnumeratedSource random;
  do {
    random.begin_path();
    const Token token = draw(p, {}, random);
    distribution[token] += random.probability();
  } while (random.next_path());
  EXPECT_EQ(distribution, (std::map<Token, Rational>{
                              {0, Rational(1, 8)}, {63, Rational(1, 4)}, {64, Rational(1, 8)}, {500, Rational(1, 2)}}));
}

TEST(DrawDeathTest, ASourceThatUsesTwoNumbersForOneKeyAborts) {
  class Last final : public RandomSource {
   public:
    std::size_t sample_index(const Key&, std::span<const std::uint64_t> weights) override { return weights.size() - 1; }
  };
  class Alternating final : public RandomSource {
   public:
    std::size_t sample_index(const Key&, std::span<const std::uint64_t> weights) override {
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
  EXPECT_DEATH(draw(p, {}, alternating), "gives the same uniform number each time");
}

TEST(DrawDeathTest, FromAnEmptyDistributionAborts) {
  PhiloxSource random(1);
  EXPECT_DEATH(draw(Distribution(), {}, random), "empty distribution");
}

}  // namespace
}  // namespace draftproof::proposal_test
