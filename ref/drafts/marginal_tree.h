// SPDX-License-Identifier: MIT
// A tree of draft tokens from the marginals of a block: row d is the distribution of the token at depth d, whatever
// stands before it. So the probability of a path is the product of its tokens' marginals, and the tree with the most
// expected tokens is that of the most probable paths (DDTree).
//
// Example: depth 0 has a 0.6, b 0.25; depth 1 has c 0.5, d 0.4. The most probable paths are a 0.6, ac 0.3, b 0.25, ad
// 0.24: the tree of 3 nodes is a with the child c, and b; that of 4 has d below a as well.
//
// Where rows depend on the path, see ref/drafts/draft_tree.h.
#pragma once

#include <span>

#include "ref/acceptance/proposal.h"

namespace draftproof {

/// Adds the `nodes` most probable paths below the anchor, all of them deterministic. `marginals`: logits
/// [depths][vocabulary]. A path comes before its extensions; of a row's tokens come first those that most_probable.h
/// has first, of equally probable paths the one found first. Probabilities are those of most_probable.h.
void add_most_probable_paths(std::span<const float> marginals, int vocabulary, int nodes, ProposalBuilder& builder);

}  // namespace draftproof
