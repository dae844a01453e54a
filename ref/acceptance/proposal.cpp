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
    : sampling_(sampling), committed_(committed), next_{sequence, position, noise}, chance_(chance),
      sampler_(sampler) {}

Token Guesses::draw(std::span<const float> logits) {
  REQUIRE(proposal_.is_chain() && branch_.size() == proposal_.tokens.size(), "only the first branch is drawn");
  Distribution q = sampler_.blank();
  sampler_.read(logits, sampling_, {committed_, branch_}, q);
  const Token token = draftproof::draw(q, next_, chance_);
  add(token, std::move(q));
  return token;
}

void Guesses::name(Token token) { add(token, Distribution::point(token)); }

void Guesses::back_to(int depth) {
  REQUIRE(depth >= 0 && depth <= static_cast<int>(branch_.size()), "a branch begins where the guesses have come to");
  next_.position -= static_cast<int>(branch_.size()) - depth;
  branch_.resize(static_cast<std::size_t>(depth));
}

bool Guesses::made(Token token) const {
  int last = -1;  // of the branch
  for (const Token above : branch_) last = proposal_.child(last, above);
  return proposal_.child(last, token) != Proposal::no_guess;
}

void Guesses::add(Token token, Distribution q) {
  const int depth = static_cast<int>(branch_.size());
  if (proposal_.is_chain() && depth < proposal_.size()) {
    for (int guess = 0; guess < proposal_.size(); ++guess) proposal_.depths.push_back(guess);
  }
  REQUIRE(!made(token), "guesses that follow the same token are different tokens");
  if (!proposal_.is_chain()) proposal_.depths.push_back(depth);
  proposal_.tokens.push_back(token);
  proposal_.drawn_from.push_back(std::move(q));
  branch_.push_back(token);
  ++next_.position;
}

}  // namespace draftproof
