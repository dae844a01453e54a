// SPDX-License-Identifier: MIT
#include "ref/drafts/draft_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/drafts/support.h"

namespace draftproof::draft_tree_test {
namespace {

using Path = std::vector<Token>;

constexpr int vocabulary = 4;

/// A row of logits after a path; with few different values, so that there are ties, and with impossible tokens.
std::vector<float> logits_after(const Path& path, std::uint32_t seed) {
  for (const Token token : path) seed = (seed + static_cast<std::uint32_t>(token) + 1) * 2654435761U;
  std::vector<float> logits;
  for (int token = 0; token < vocabulary; ++token) {
    const std::uint32_t letter = seed >> (5 * token + 3) & 7;
    logits.push_back(letter == 0 && token > 0 ? -std::numeric_limits<float>::infinity()
                                              : static_cast<float>(letter) / 2);
  }
  return logits;
}

/// The probabilities of all paths of at most `depth` tokens.
void add_paths(const Path& path, double probability, int depth, std::uint32_t seed, std::map<Path, double>& all) {
  if (depth == 0) return;
  const Distribution row = compute_distribution(logits_after(path, seed), {.temperature = 1}, {});
  for (Token token = 0; token < vocabulary; ++token) {
    if (row.weight(token) == 0) continue;
    Path longer = path;
    longer.push_back(token);
    const double share = static_cast<double>(row.weight(token)) / static_cast<double>(Distribution::total);
    all[longer] = probability * share;
    add_paths(longer, probability * share, depth - 1, seed, all);
  }
}

struct Grown {
  Proposal proposal;
  int passes = 0;
};

Grown grow(int budget, std::uint32_t seed) {
  constexpr Token anchor = 3;
  DraftTree tree(anchor, budget);
  Sampler sampler;
  Grown grown;
  for (;; ++grown.passes) {
    const DraftTree::Pass pass = tree.next_pass();
    if (pass.wanted.empty()) break;
    EXPECT_EQ(pass.nodes[0], DraftTree::anchor);
    EXPECT_EQ(pass.tokens[0], anchor);
    EXPECT_LE(pass.nodes.size(), static_cast<std::size_t>(budget) + 1) << "they fit a transaction of the round";
    std::vector<int> branch;  // of rows; the last row of each depth is the one above the next
    for (std::size_t row = 0; row < pass.nodes.size(); ++row) {
      EXPECT_LE(pass.depths[row], static_cast<int>(branch.size())) << "rows are in preorder";
      branch.resize(static_cast<std::size_t>(pass.depths[row]));
      if (row > 0) {
        EXPECT_EQ(tree.parent(pass.nodes[row]), pass.nodes[static_cast<std::size_t>(branch.back())]);
      }
      branch.push_back(static_cast<int>(row));
    }
    for (const int row : pass.wanted) {
      Path path;
      int depth = pass.depths[static_cast<std::size_t>(row)];
      for (int above = row; above > 0; --above) {
        if (pass.depths[static_cast<std::size_t>(above)] != depth) continue;
        path.insert(path.begin(), pass.tokens[static_cast<std::size_t>(above)]);
        --depth;
      }
      tree.expand(pass.nodes[static_cast<std::size_t>(row)], logits_after(path, seed), sampler);
    }
  }
  PhiloxSource random(1);
  const std::vector<Token> committed = {anchor};
  const Sampling sampling;
  ProposalBuilder builder(sampling, committed, 0, 1, Purpose::target, random, sampler);
  tree.add_to(builder);
  grown.proposal = std::move(builder).proposal();
  return grown;
}

TEST(DraftTree, HoldsTheMostLikelyOfAllPaths) {
  for (std::uint32_t seed = 1; seed < 300; ++seed) {
    std::map<Path, double> all;
    add_paths({}, 1, 6, seed, all);
    std::vector<double> ranked;
    for (const auto& [path, probability] : all) ranked.push_back(probability);
    std::ranges::sort(ranked, std::greater<>());
    for (const int budget : {1, 2, 3, 5, 6}) {  // no path of the tree is longer than those that are listed
      const Proposal proposal = grow(budget, seed).proposal;
      ASSERT_EQ(proposal.size(), budget);
      std::set<Path> paths;
      std::vector<double> held;
      for (int node = 0; node < proposal.size(); ++node) {
        Path path;
        for (const int above : proposal.path_to(node)) path.push_back(proposal.tokens[static_cast<std::size_t>(above)]);
        ASSERT_TRUE(all.contains(path));
        ASSERT_TRUE(paths.insert(path).second);
        held.push_back(all.at(path));
      }
      std::ranges::sort(held, std::greater<>());
      ASSERT_EQ(held, std::vector<double>(ranked.begin(), ranked.begin() + budget)) << seed << " " << budget;
    }
  }
}

TEST(DraftTree, NamesItsTokensWithCertaintyAndTheLikelierSiblingFirst) {
  for (std::uint32_t seed = 1; seed < 50; ++seed) {
    const Proposal proposal = grow(6, seed).proposal;
    for (int node = 0; node < proposal.size(); ++node) {
      const auto at = static_cast<std::size_t>(node);
      EXPECT_EQ(proposal.drawn_from[at], Distribution::point(proposal.tokens[at]));
      const int next = proposal.next_sibling(node);
      if (next == Proposal::no_node) continue;
      Path above;
      for (const int one : proposal.path_to(node)) above.push_back(proposal.tokens[static_cast<std::size_t>(one)]);
      above.pop_back();
      const std::vector<float> logits = logits_after(above, seed);
      const Token a = proposal.tokens[at], b = proposal.tokens[static_cast<std::size_t>(next)];
      EXPECT_TRUE(logits[a] > logits[b] || (logits[a] == logits[b] && a < b));
    }
  }
}

TEST(DraftTree, TakesNoMorePassesThanTheDepthOfWhatItLookedAt) {
  for (std::uint32_t seed = 1; seed < 50; ++seed) {
    const Grown grown = grow(6, seed);
    EXPECT_LE(grown.passes, 7);
    EXPECT_GE(grown.passes, 2);
  }
}

}  // namespace
}  // namespace draftproof::draft_tree_test
