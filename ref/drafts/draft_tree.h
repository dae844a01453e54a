// SPDX-License-Identifier: MIT
// The most likely continuations of a text as a tree of draft tokens: of all paths of tokens below the anchor the
// `budget` most likely ones, by the product of the draft's probabilities along the path. A path is never more likely
// than a part of it that begins at the anchor, so these are a tree.
//
// Which ones they are is known once each of them has been expanded: the draft has computed the row of its last token,
// which gives the probabilities of the tokens after it. Probabilities are those of the row at temperature 1, as the
// integers of a Distribution; nothing is drawn.
//
// Example: after the anchor a has 0.6 and b 0.3; after a, c has 0.9; after c, no token has more than 0.5. The most
// likely paths are a 0.6, ac 0.54, b 0.3: a budget of 2 gives a with the child c, a budget of 3 also b.
#pragma once

#include <span>
#include <vector>

#include "ref/acceptance/proposal.h"
#include "ref/base/token.h"

namespace draftproof {

class DraftTree {
 public:
  static constexpr int anchor = 0;  // a node; the others are draft tokens

  DraftTree(Token anchor, int budget);

  /// Rows for the draft to compute, in preorder: the nodes to expand next, and those that lead to them.
  struct Pass {
    std::vector<int> nodes;  // of each row
    std::vector<Token> tokens;
    std::vector<int> depths;  // 0 for the anchor
    std::vector<int> wanted;  // the rows whose nodes are to be expanded; empty: the tree is complete
  };
  Pass next_pass() const;

  /// Adds the tokens that are likely after `node`, in the order of most_probable.h.
  void expand(int node, std::span<const float> logits, Sampler& sampler);

  int parent(int node) const { return nodes_[static_cast<std::size_t>(node)].parent; }

  /// Adds the tree to `builder`: all draft tokens are deterministic.
  void add_to(ProposalBuilder& builder) const;

 private:
  struct Node {
    Token token;
    int parent;
    int depth;
    double probability;
    bool expanded = false;
  };
  /// The anchor and the `budget` most likely nodes, in preorder; of siblings the more likely one first.
  std::vector<int> best() const;

  int budget_;
  std::vector<Node> nodes_;  // a parent before its children
};

}  // namespace draftproof
