// SPDX-License-Identifier: MIT
#include "ref/acceptance/proposal.h"

#include <utility>

#include "ref/acceptance/draw.h"
#include "ref/base/require.h"

namespace draftproof {

int Proposal::first_child(int guess) const {
  const int next = guess + 1;
  return next < size() && depth(next) == depth(guess) + 1 ? next : no_guess;
}

int Proposal::next_sibling(int guess) const {
  int next = guess + 1;
  while (next < size() && depth(next) > depth(guess)) ++next;
  return next < size() && depth(next) == depth(guess) ? next : no_guess;
}

int Proposal::child(int guess, Token token) const {
  int next = first_child(guess);
  while (next != no_guess && tokens[static_cast<std::size_t>(next)] != token) next = next_sibling(next);
  return next;
}

int Proposal::parent(int guess) const {
  int above = guess - 1;
  while (depth(above) >= depth(guess)) --above;
  return above;
}

std::vector<int> Proposal::path_to(int guess) const {
  std::vector<int> path(static_cast<std::size_t>(depth(guess) + 1));
  for (auto place = path.rbegin(); place != path.rend(); ++place, guess = parent(guess)) *place = guess;
  REQUIRE(guess == -1, "a guess is at most one deeper than the one before it");
  return path;
}

void Proposal::keep(const std::vector<int>& guesses) {
  Proposal kept;
  bool chain = true;
  for (const int guess : guesses) {
    const auto place = static_cast<std::size_t>(guess);
    chain = chain && depth(guess) == kept.size();
    kept.depths.push_back(depth(guess));
    kept.tokens.push_back(tokens[place]);
    kept.drawn_from.push_back(std::move(drawn_from[place]));
  }
  if (chain) kept.depths.clear();
  *this = std::move(kept);
}

Guesses::Guesses(const Sampling& sampling, std::span<const Token> committed, int sequence, int position, Purpose noise,
                 Chance& chance, Sampler& sampler)
    : sampling_(sampling), committed_(committed), sequence_(sequence), position_(position), noise_(noise),
      chance_(chance), sampler_(sampler) {}

Token Guesses::draw(std::span<const float> logits) {
  REQUIRE(can_draw(), "only the first branch is drawn");
  Distribution q = sampler_.blank();
  sampler_.read(logits, sampling_, {committed_, branch_}, q);
  const int depth = static_cast<int>(branch_.size());
  const Token token = draftproof::draw(q, {sequence_, position_ + depth, noise_}, chance_);
  add(branch_, token, std::move(q));
  branch_.push_back(token);
  drawn_ = depth + 1;
  return token;
}

void Guesses::name(Token token) {
  add(branch_, token, Distribution::point(token));
  branch_.push_back(token);
}

void Guesses::name_beside(Token token) {
  REQUIRE(!branch_.empty(), "beside a guess");
  add(std::span(branch_).first(branch_.size() - 1), token, Distribution::point(token));
}

void Guesses::back_to(int depth) {
  REQUIRE(depth >= 0 && depth <= static_cast<int>(branch_.size()), "a branch begins where the guesses have come to");
  first_branch_ = first_branch_ && depth == static_cast<int>(branch_.size());
  branch_.resize(static_cast<std::size_t>(depth));
}

bool Guesses::made(std::span<const Token> branch, Token token) const {
  return proposal_.child(last_of(branch), token) != Proposal::no_guess;
}

int Guesses::last_of(std::span<const Token> branch) const {
  int last = -1;
  for (const Token token : branch) last = proposal_.child(last, token);
  return last;
}

void Guesses::add(std::span<const Token> branch, Token token, Distribution q) {
  const int depth = static_cast<int>(branch.size());
  const int above = last_of(branch);
  REQUIRE(can_name(branch), "what is guessed in a place does not know what was drawn below it");
  REQUIRE(proposal_.child(above, token) == Proposal::no_guess, "the guesses of one place are different tokens");
  int place = above + 1;  // behind everything below `above`
  while (place < proposal_.size() && proposal_.depth(place) >= depth) ++place;
  if (proposal_.is_chain() && depth != proposal_.size()) {
    for (int guess = 0; guess < proposal_.size(); ++guess) proposal_.depths.push_back(guess);
  }
  if (!proposal_.is_chain()) proposal_.depths.insert(proposal_.depths.begin() + place, depth);
  proposal_.tokens.insert(proposal_.tokens.begin() + place, token);
  proposal_.drawn_from.insert(proposal_.drawn_from.begin() + place, std::move(q));
}

}  // namespace draftproof
