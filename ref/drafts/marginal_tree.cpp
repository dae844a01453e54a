// SPDX-License-Identifier: MIT
#include "ref/drafts/marginal_tree.h"

#include <cstddef>
#include <queue>
#include <vector>

#include "ref/acceptance/sampler.h"
#include "ref/drafts/most_probable.h"

namespace draftproof {
namespace {

/// A path below the anchor: that of its parent and one token more, the rank-th most probable at its depth.
struct TreePath {
  double probability = 0;
  double parents = 0;  // probability of the parent's path
  int parent = -1;     // in the tree; -1: the anchor
  int depth = 0;
  int rank = 0;
  int order = 0;  // in which paths were found
};

struct LessProbable {
  bool operator()(const TreePath& a, const TreePath& b) const {
    if (a.probability != b.probability) return a.probability < b.probability;
    return a.order > b.order;
  }
};

}  // namespace

void add_most_probable_paths(std::span<const float> marginals, int vocabulary, int nodes, ProposalBuilder& builder) {
  const auto width = static_cast<std::size_t>(vocabulary);
  const int depths = static_cast<int>(marginals.size() / width);
  Sampler sampler;
  std::vector<std::vector<ProbableToken>> best;  // by depth
  for (int depth = 0; depth < depths; ++depth) {
    best.push_back(most_probable(marginals.subspan(static_cast<std::size_t>(depth) * width, width), nodes, sampler));
  }
  std::priority_queue<TreePath, std::vector<TreePath>, LessProbable> found;
  int order = 0;
  const auto find = [&](double parents, int parent, int depth, int rank) {
    if (depth >= depths || rank >= std::ssize(best[static_cast<std::size_t>(depth)])) return;
    const double share = best[static_cast<std::size_t>(depth)][static_cast<std::size_t>(rank)].probability;
    found.push({parents * share, parents, parent, depth, rank, order++});
  };
  std::vector<TreePath> tree;
  std::vector<std::vector<int>> children(1);  // of the anchor, then of every path in the tree
  find(1, -1, 0, 0);
  while (static_cast<int>(tree.size()) < nodes && !found.empty()) {
    const TreePath path = found.top();
    found.pop();
    const int place = static_cast<int>(tree.size());
    children[static_cast<std::size_t>(path.parent + 1)].push_back(place);
    children.emplace_back();
    tree.push_back(path);
    find(path.parents, path.parent, path.depth, path.rank + 1);
    find(path.probability, place, path.depth + 1, 0);
  }
  const auto add_below = [&](const auto& self, int parent, int depth) -> void {
    for (const int child : children[static_cast<std::size_t>(parent + 1)]) {
      const TreePath& path = tree[static_cast<std::size_t>(child)];
      builder.rewind_to(depth);
      builder.add_token(best[static_cast<std::size_t>(depth)][static_cast<std::size_t>(path.rank)].token);
      self(self, child, depth + 1);
    }
  };
  add_below(add_below, -1, 0);
}

}  // namespace draftproof
