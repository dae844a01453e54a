// SPDX-License-Identifier: MIT
#include "ref/drafts/marginal_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tests/drafts/support.h"
#include "tests/drafts/texts.h"

namespace draftproof::marginal_tree_test {
namespace {

constexpr int vocabulary = 4;

Proposal tree_of(std::span<const float> marginals, int nodes) {
  const Text committed = {0};
  PhiloxSource random(1);
  Sampler sampler;
  const Sampling sampling;
  ProposalBuilder builder(sampling, committed, 0, 1, Purpose::draft, random, sampler);
  add_most_probable_paths(marginals, vocabulary, nodes, builder);
  return std::move(builder).proposal();
}

std::set<Text> paths_of(const Proposal& proposal) {
  std::set<Text> paths;
  for (int node = 0; node < proposal.size(); ++node) {
    Text path;
    for (const int one : proposal.path_to(node)) path.push_back(proposal.tokens[static_cast<std::size_t>(one)]);
    EXPECT_TRUE(paths.insert(path).second) << "a path is in the tree once";
  }
  return paths;
}

/// Of every path over the marginals, its probability.
std::vector<std::pair<double, Text>> all_paths(std::span<const float> marginals) {
  std::vector<std::pair<double, Text>> paths = {{1, {}}};
  const std::size_t depths = marginals.size() / vocabulary;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto [probability, path] = paths[i];
    if (path.size() == depths) continue;
    const auto row = marginals.subspan(path.size() * vocabulary, vocabulary);
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    for (Token token = 0; token < vocabulary; ++token) {
      Text longer = path;
      longer.push_back(token);
      paths.emplace_back(probability * std::exp(static_cast<double>(row[static_cast<std::size_t>(token)])) / sum,
                         longer);
    }
  }
  paths.erase(paths.begin());
  return paths;
}

TEST(MarginalTree, HasTheMostProbableOfAllPaths) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::vector<float> marginals;
    for (const Token number : random_text(3 * vocabulary, 4001, seed)) {
      marginals.push_back(static_cast<float>(number - 2000) / 500);
    }
    auto paths = all_paths(marginals);
    std::ranges::stable_sort(paths, [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const int nodes : {1, 2, 3, 5, 8, 13, 40, 84}) {
      std::set<Text> expected;
      for (int i = 0; i < nodes; ++i) expected.insert(paths[static_cast<std::size_t>(i)].second);
      EXPECT_EQ(paths_of(tree_of(marginals, nodes)), expected) << "seed " << seed << ", " << nodes << " draft tokens";
    }
    EXPECT_EQ(tree_of(marginals, 1000).size(), 84) << "4 + 16 + 64 paths are all there are";
  }
}

TEST(MarginalTree, OfCertainTokensIsAChain) {
  std::vector<float> marginals(3 * vocabulary, 0);
  for (int depth = 0; depth < 3; ++depth) marginals[static_cast<std::size_t>(depth * vocabulary + depth)] = 50;
  const Proposal chain = tree_of(marginals, 3);
  EXPECT_TRUE(chain.is_chain());
  EXPECT_EQ(chain.tokens, (Text{0, 1, 2}));
}

TEST(MarginalTree, LeavesOutTokensThatCannotFollow) {
  std::vector<float> marginals(2 * vocabulary, -std::numeric_limits<float>::infinity());
  marginals[1] = 0;
  marginals[vocabulary + 2] = 0;
  EXPECT_EQ(tree_of(marginals, 10).tokens, (Text{1, 2}));
}

TEST(MarginalTree, TakesTheSmallerTokensOfEquallyProbableOnes) {
  const std::vector<float> marginals(2 * vocabulary, 0);
  EXPECT_EQ(paths_of(tree_of(marginals, 3)), (std::set<Text>{{0}, {1}, {2}}));
}

}  // namespace
}  // namespace draftproof::marginal_tree_test
