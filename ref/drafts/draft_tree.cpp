// SPDX-License-Identifier: MIT
#include "ref/drafts/draft_tree.h"

#include <algorithm>
#include <numeric>

#include "ref/base/require.h"
#include "ref/drafts/most_probable.h"

namespace draftproof {

DraftTree::DraftTree(Token anchor, int budget) : budget_(budget), nodes_({{anchor, -1, 0, 1}}) {
  REQUIRE(budget >= 1, "a tree has room for at least one draft token");
}

std::vector<int> DraftTree::best() const {
  std::vector<int> ranked(nodes_.size());
  std::iota(ranked.begin(), ranked.end(), 0);
  const std::size_t kept = std::min(ranked.size(), static_cast<std::size_t>(budget_) + 1);
  const auto likelier = [&](int a, int b) {
    const double p = nodes_[static_cast<std::size_t>(a)].probability;
    const double q = nodes_[static_cast<std::size_t>(b)].probability;
    return p != q ? p > q : a < b;
  };
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(kept), ranked.end(), likelier);
  ranked.resize(kept);

  std::vector<std::vector<int>> children(nodes_.size());
  for (const int node : ranked) {
    if (node != anchor) children[static_cast<std::size_t>(parent(node))].push_back(node);
  }
  std::vector<int> order;
  std::vector<int> stack = {anchor};
  while (!stack.empty()) {
    const int node = stack.back();
    stack.pop_back();
    order.push_back(node);
    const std::vector<int>& below = children[static_cast<std::size_t>(node)];
    stack.insert(stack.end(), below.rbegin(), below.rend());
  }
  return order;
}

DraftTree::Pass DraftTree::next_pass() const {
  const std::vector<int> order = best();
  std::vector<bool> needed(nodes_.size());
  for (int node : order) {
    if (nodes_[static_cast<std::size_t>(node)].expanded) continue;
    for (; node >= 0 && !needed[static_cast<std::size_t>(node)]; node = parent(node)) {
      needed[static_cast<std::size_t>(node)] = true;
    }
  }
  Pass pass;
  for (const int number : order) {
    if (!needed[static_cast<std::size_t>(number)]) continue;
    const Node& node = nodes_[static_cast<std::size_t>(number)];
    if (!node.expanded) pass.wanted.push_back(static_cast<int>(pass.nodes.size()));
    pass.nodes.push_back(number);
    pass.tokens.push_back(node.token);
    pass.depths.push_back(node.depth);
  }
  return pass;
}

void DraftTree::expand(int node, std::span<const float> logits, Sampler& sampler) {
  Node& above = nodes_[static_cast<std::size_t>(node)];
  REQUIRE(!above.expanded, "a node is expanded once");
  above.expanded = true;
  const int depth = above.depth + 1;
  const double probability = above.probability;
  for (const ProbableToken& child : most_probable(logits, budget_, sampler)) {
    nodes_.push_back({child.token, node, depth, probability * child.probability});
  }
}

void DraftTree::add_to(ProposalBuilder& builder) const {
  for (const int number : best()) {
    if (number == anchor) continue;
    const Node& node = nodes_[static_cast<std::size_t>(number)];
    builder.rewind_to(node.depth - 1);
    builder.add_token(node.token);
  }
}

}  // namespace draftproof
