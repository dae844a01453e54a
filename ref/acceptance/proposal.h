// SPDX-License-Identifier: MIT
// Draft tokens: a tree of tokens below the anchor, most often a chain, each with the distribution it was really drawn from.
// Drafts never fill one in by hand; they hand logits (or a bare token) to Draft tokens, which draws, so the recorded q
// cannot differ from the sampled q.
//
// A tree is written in preorder: a draft token, then everything below it, then the next in the same place, which is another
// token. So an ancestor comes before what is below it, and the depths alone say who follows whom.
#pragma once

#include <span>
#include <vector>

#include "ref/acceptance/random_source.h"
#include "ref/acceptance/distribution.h"
#include "ref/acceptance/sampling.h"
#include "ref/base/token.h"

namespace draftproof {

struct Proposal {
  std::vector<Token> tokens;
  std::vector<Distribution> drawn_from;  // one per token
  std::vector<int> depths = {};          // of each draft token, the draft tokens above it; empty for a chain: 0, 1, 2, ...

  int size() const noexcept { return static_cast<int>(tokens.size()); }
  bool is_chain() const noexcept { return depths.empty(); }

  // A draft token is named by its place, and the anchor by -1.
  int depth(int node) const { return node < 0 || is_chain() ? node : depths[static_cast<std::size_t>(node)]; }
  /// The first draft token after `node`, the next after the same token as `node`; no_node where there is none.
  int first_child(int node) const;
  int next_sibling(int node) const;
  /// The draft token that `node` >= 0 follows.
  int parent(int node) const;
  /// The draft token after `node` that is this token; no_node where there is none.
  int child(int node, Token token) const;
  /// The draft tokens from the anchor's child to `node`, which is the last of them.
  std::vector<int> path_to(int node) const;
  static constexpr int no_node = -2;

  /// Drops every draft token below one of which `ends` holds.
  template <class Ends>
  void cut_below(const Ends& ends);

 private:
  void keep(const std::vector<int>& draft_tokens);
};

/// Takes a tree in any order, by moving along its branches; but a number of `noise` is keyed by position and the next
/// round may ask for it again, so it serves one draft token, on the first branch, and what is drafted in a place may not know
/// what was drawn below that place: what stands there would tell of a number that is still to be drawn with.
class ProposalBuilder {
 public:
  /// The first draft token decides the token at absolute position `position`, after `committed`. `noise` is the purpose under
  /// which draws are keyed: Purpose::draft for independent noise, Purpose::target to share the target's.
  ProposalBuilder(const Sampling& sampling, std::span<const Token> committed, int sequence, int position, Purpose noise,
          RandomSource& random, Sampler& sampler);

  /// Draws the next draft token from a row of logits; returns it. Only on the first branch.
  Token draw(std::span<const float> logits);
  /// The next draft token is this token, for certain. It has not been drafted there, nothing was drawn below its place.
  void add_token(Token token);
  /// The same in the place of the last draft token, which the next one still follows.
  void add_sibling(Token token);

  /// The next draft token follows the first `depth` draft tokens of the current branch: another branch begins.
  void rewind_to(int depth);
  /// The draft tokens that the next one follows.
  std::span<const Token> branch() const noexcept { return branch_; }
  /// Whether this token was drafted after `branch`, a part of the current branch from its beginning.
  bool contains(std::span<const Token> branch, Token token) const;
  /// Whether a draft token may be drawn next, and whether one may be named after `branch`.
  bool can_draw() const noexcept { return first_branch_; }
  bool can_add_token(std::span<const Token> branch) const noexcept { return static_cast<int>(branch.size()) + 1 >= drawn_; }

  int size() const noexcept { return proposal_.size(); }
  const Proposal& proposal() const& noexcept { return proposal_; }
  Proposal proposal() && { return std::move(proposal_); }

 private:
  int last_of(std::span<const Token> branch) const;
  void add(std::span<const Token> branch, Token token, Distribution q);

  const Sampling& sampling_;
  std::span<const Token> committed_;
  int sequence_;
  int position_;
  Purpose noise_;
  RandomSource& random_;
  Sampler& sampler_;
  Proposal proposal_;
  std::vector<Token> branch_;
  bool first_branch_ = true;
  int drawn_ = 0;  // places on the first branch, down to the last one in which a draft token was drawn
};

template <class Ends>
void Proposal::cut_below(const Ends& ends) {
  std::vector<int> kept;
  int end = size();  // draft tokens at this depth and further down are below one that ends
  for (int node = 0; node < size(); ++node) {
    if (depth(node) > end) continue;
    kept.push_back(node);
    end = ends(tokens[static_cast<std::size_t>(node)]) ? depth(node) : size();
  }
  if (kept.size() < tokens.size()) keep(kept);
}

}  // namespace draftproof
