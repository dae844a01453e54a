// SPDX-License-Identifier: MIT
// A proposal: a tree of draft tokens below the anchor, most often a chain. Each draft token comes with the distribution
// q that it was drawn from. A draft never fills one in by hand: it passes logits (or a bare token) to ProposalBuilder,
// which draws, so the recorded q cannot differ from the sampled q.
//
// The tree is stored in preorder: a draft token, then all its descendants, then its next sibling, which is a different
// token. So ancestors come before descendants, and the depths alone define the tree.
//
// Example: a with the children c and d, then b, a sibling of a: tokens [a, c, d, b], depths [0, 1, 1, 0]. The chain
// [4, 2, 3] has the depths 0, 1, 2, which are left out.
#pragma once

#include <span>
#include <vector>

#include "ref/acceptance/constraint.h"
#include "ref/acceptance/distribution.h"
#include "ref/acceptance/random_source.h"
#include "ref/acceptance/sampling_params.h"
#include "ref/base/token.h"

namespace draftproof {

class Sampler;  // sampler.h

struct Proposal {
  std::vector<Token> tokens;
  std::vector<Distribution> drawn_from;  // one per token
  std::vector<int> depths = {};          // ancestors of each draft token; empty for a chain, where it is 0, 1, 2, ...
  /// Draft tokens that each of several drafts was asked for, in order, up to the one that proposed; 0: it was not.
  /// Empty for a draft alone without a tuner.
  std::vector<int> asked = {};
  int cut = 0;     // draft tokens that prune has removed
  int forced = 0;  // of the last draft tokens, those that a constraint left no choice about: no draft proposed them

  int size() const noexcept { return static_cast<int>(tokens.size()); }
  bool is_chain() const noexcept { return depths.empty(); }
  /// Returns the draft that proposed it, of several that are asked in order.
  int stage() const noexcept { return asked.empty() ? 0 : static_cast<int>(asked.size()) - 1; }

  // A node is the index of a draft token, or -1 for the anchor.
  int depth(int node) const { return node < 0 || is_chain() ? node : depths[node]; }
  /// Return the first child or the next sibling of `node`; no_node when there is none.
  int first_child(int node) const;
  int next_sibling(int node) const;
  /// Returns the parent of `node` >= 0.
  int parent(int node) const;
  /// Returns the child of `node` that is this token; no_node when there is none.
  int child(int node, Token token) const;
  /// Returns the nodes from the anchor's child to `node`, inclusive.
  std::vector<int> path_to(int node) const;
  static constexpr int no_node = -2;

  /// What prune leaves of a draft token: it and what is below it, it alone, or neither.
  enum class Kept { whole, alone, nothing };
  /// Removes what `kept(node)` says. It is asked of draft tokens whose ancestors stay whole.
  template <class KeptOf>
  void prune(const KeptOf& kept_of);
  /// Appends a forced draft token to a chain.
  void force(Token token);

 private:
  void keep(const std::vector<int>& draft_tokens);
};

/// Builds the tree of draft tokens. The key of a draw names the position and depth of its draft token, so only the
/// first branch may be sampled; other nodes are deterministic. None of them may be chosen from a sample drawn deeper in
/// the tree: the checks enumerate no such trees.
class ProposalBuilder {
 public:
  /// The first draft token is for absolute position `position`, after the `committed` text. `noise`: the purpose in the
  /// keys of the draws; Purpose::draft for independent noise, Purpose::target to share the target's noise.
  /// `constraint`: of the text from token `constrained_from` on; nullptr: none.
  ProposalBuilder(const Sampling& sampling, std::span<const Token> committed, int sequence, int position, Purpose noise,
                  RandomSource& random, Sampler& sampler, ConstraintReader* constraint = nullptr,
                  std::size_t constrained_from = 0);

  /// Draws the next draft token of the branch from a row of logits and returns it. Allowed on the first branch only.
  /// The constraint masks the row, unless that leaves nothing of it.
  Token draw(std::span<const float> logits);
  /// Adds this token, deterministically, as the next draft token of the branch. It must not be there yet, and nothing
  /// may have been drawn deeper than its place.
  void add_token(Token token);
  /// Adds this token, under the same conditions, as a sibling of the branch's last draft token. The branch stays as it
  /// is.
  void add_sibling(Token token);

  /// Shortens the branch to its first `depth` draft tokens; the next draft token starts another branch there.
  void rewind_to(int depth);
  /// Records how many draft tokens the next of several drafts is asked for; 0: it is not.
  void ask(int draft_tokens) { proposal_.asked.push_back(draft_tokens); }
  /// Returns the draft tokens of the current branch.
  std::span<const Token> branch() const noexcept { return branch_; }
  /// Whether this token is a draft token after `branch`, a prefix of the current branch.
  bool contains(std::span<const Token> branch, Token token) const;
  /// Whether draw() is allowed now.
  bool can_draw() const noexcept { return first_branch_; }
  /// Whether a deterministic draft token is allowed after `branch`.
  bool can_add_token(std::span<const Token> branch) const noexcept {
    return static_cast<int>(branch.size()) + 1 >= drawn_;
  }

  int size() const noexcept { return proposal_.size(); }
  const Proposal& proposal() const& noexcept { return proposal_; }
  Proposal proposal() && { return std::move(proposal_); }

 private:
  const TokenSet* allowed_in(std::span<const float> logits);
  int last_of(std::span<const Token> branch) const;
  void add(std::span<const Token> branch, Token token, Distribution q);

  const Sampling& sampling_;
  std::span<const Token> committed_;
  int sequence_;
  int position_;
  Purpose noise_;
  RandomSource& random_;
  Sampler& sampler_;
  ConstraintReader* constraint_;
  std::size_t constrained_from_;
  std::vector<Token> output_;  // with the branch
  Proposal proposal_;
  std::vector<Token> branch_;
  bool first_branch_ = true;
  int drawn_ = 0;  // depth of the deepest drawn draft token of the first branch, plus 1
};

template <class KeptOf>
void Proposal::prune(const KeptOf& kept_of) {
  std::vector<int> kept;
  int end = size();  // draft tokens deeper than this are below one that does not stay whole
  for (int node = 0; node < size(); ++node) {
    if (depth(node) > end) continue;
    const Kept what = kept_of(node);
    if (what != Kept::nothing) kept.push_back(node);
    end = what == Kept::whole ? size() : depth(node);
  }
  if (kept.size() < tokens.size()) keep(kept);
}

}  // namespace draftproof
