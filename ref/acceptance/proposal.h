// SPDX-License-Identifier: MIT
// Guesses: a tree of tokens below the anchor, most often a chain, each with the distribution it was really drawn from.
// Drafts never fill one in by hand; they hand logits (or a bare token) to Guesses, which draws, so the recorded q
// cannot differ from the sampled q.
//
// A tree is written in preorder: a guess, then everything below it, then the next in the same place, which is another
// token. So an ancestor comes before what is below it, and the depths alone say who follows whom.
#pragma once

#include <span>
#include <vector>

#include "ref/acceptance/chance.h"
#include "ref/acceptance/distribution.h"
#include "ref/acceptance/sampling.h"
#include "ref/base/token.h"

namespace draftproof {

struct Proposal {
  std::vector<Token> tokens;
  std::vector<Distribution> drawn_from;  // one per token
  std::vector<int> depths = {};          // of each guess, the guesses above it; empty for a chain: 0, 1, 2, ...

  int size() const noexcept { return static_cast<int>(tokens.size()); }
  bool is_chain() const noexcept { return depths.empty(); }

  // A guess is named by its place, and the anchor by -1.
  int depth(int guess) const { return guess < 0 || is_chain() ? guess : depths[static_cast<std::size_t>(guess)]; }
  /// The first guess after `guess`, the next after the same token as `guess`; no_guess where there is none.
  int first_child(int guess) const;
  int next_sibling(int guess) const;
  /// The guess that `guess` >= 0 follows.
  int parent(int guess) const;
  /// The guess after `guess` that is this token; no_guess where there is none.
  int child(int guess, Token token) const;
  /// The guesses from the anchor's child to `guess`, which is the last of them.
  std::vector<int> path_to(int guess) const;
  static constexpr int no_guess = -2;

  /// Drops every guess below one of which `ends` holds.
  template <class Ends>
  void cut_below(const Ends& ends);

 private:
  void keep(const std::vector<int>& guesses);
};

/// Takes a tree in any order, by moving along its branches; but a number of `noise` is keyed by position and the next
/// round may ask for it again, so it serves one guess, on the first branch, and what is guessed in a place may not know
/// what was drawn below that place: what stands there would tell of a number that is still to be drawn with.
class Guesses {
 public:
  /// The first guess decides the token at absolute position `position`, after `committed`. `noise` is the purpose under
  /// which draws are keyed: Purpose::draft for independent noise, Purpose::target to share the target's.
  Guesses(const Sampling& sampling, std::span<const Token> committed, int sequence, int position, Purpose noise,
          Chance& chance, Sampler& sampler);

  /// Draws the next guess from a row of logits; returns it. Only on the first branch.
  Token draw(std::span<const float> logits);
  /// The next guess is this token, for certain. It has not been guessed there, nothing was drawn below its place.
  void name(Token token);
  /// The same in the place of the last guess, which the next one still follows.
  void name_beside(Token token);

  /// The next guess follows the first `depth` guesses of the current branch: another branch begins.
  void back_to(int depth);
  /// The guesses that the next one follows.
  std::span<const Token> branch() const noexcept { return branch_; }
  /// Whether this token was guessed after `branch`, a part of the current branch from its beginning.
  bool made(std::span<const Token> branch, Token token) const;
  /// Whether a guess may be drawn next, and whether one may be named after `branch`.
  bool can_draw() const noexcept { return first_branch_; }
  bool can_name(std::span<const Token> branch) const noexcept { return static_cast<int>(branch.size()) + 1 >= drawn_; }

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
  Chance& chance_;
  Sampler& sampler_;
  Proposal proposal_;
  std::vector<Token> branch_;
  bool first_branch_ = true;
  int drawn_ = 0;  // places on the first branch, down to the last one in which a guess was drawn
};

template <class Ends>
void Proposal::cut_below(const Ends& ends) {
  std::vector<int> kept;
  int end = size();  // guesses at this depth and further down are below one that ends
  for (int guess = 0; guess < size(); ++guess) {
    if (depth(guess) > end) continue;
    kept.push_back(guess);
    end = ends(tokens[static_cast<std::size_t>(guess)]) ? depth(guess) : size();
  }
  if (kept.size() < tokens.size()) keep(kept);
}

}  // namespace draftproof
