// SPDX-License-Identifier: MIT
#include "ref/acceptance/proposal.h"

#include <cmath>
#include <utility>

#include "ref/acceptance/draw.h"
#include "ref/acceptance/sampler.h"
#include "ref/base/require.h"

namespace draftproof {

int Proposal::first_child(int node) const {
  const int next = node + 1;
  return next < size() && depth(next) == depth(node) + 1 ? next : no_node;
}

int Proposal::next_sibling(int node) const {
  int next = node + 1;
  while (next < size() && depth(next) > depth(node)) ++next;
  return next < size() && depth(next) == depth(node) ? next : no_node;
}

int Proposal::child(int node, Token token) const {
  int next = first_child(node);
  while (next != no_node && tokens[next] != token) next = next_sibling(next);
  return next;
}

int Proposal::parent(int node) const {
  int above = node - 1;
  while (depth(above) >= depth(node)) --above;
  return above;
}

std::vector<int> Proposal::path_to(int node) const {
  std::vector<int> path(static_cast<std::size_t>(depth(node) + 1));
  for (auto place = path.rbegin(); place != path.rend(); ++place, node = parent(node)) *place = node;
  REQUIRE(node == -1, "a draft token is at most one level deeper than the one before it");
  return path;
}

void Proposal::keep(const std::vector<int>& draft_tokens) {
  Proposal kept;
  bool chain = true;
  for (const int node : draft_tokens) {
    const auto place = static_cast<std::size_t>(node);
    chain = chain && depth(node) == kept.size();
    kept.depths.push_back(depth(node));
    kept.tokens.push_back(tokens[place]);
    kept.drawn_from.push_back(std::move(drawn_from[place]));
  }
  if (chain) kept.depths.clear();
  kept.asked = std::move(asked);
  kept.cut = cut + size() - kept.size();
  *this = std::move(kept);
}

void Proposal::force(Token token) {
  REQUIRE(is_chain(), "draft tokens are appended to a chain");
  ++forced;
  tokens.push_back(token);
  drawn_from.push_back(Distribution::point(token));
}

ProposalBuilder::ProposalBuilder(const Sampling& sampling, std::span<const Token> committed, int sequence, int position,
                                 Purpose noise, RandomSource& random, Sampler& sampler, ConstraintReader* constraint,
                                 std::size_t constrained_from)
    : sampling_(sampling),
      committed_(committed),
      sequence_(sequence),
      position_(position),
      noise_(noise),
      random_(random),
      sampler_(sampler),
      constraint_(constraint),
      constrained_from_(constrained_from) {}

/// Returns what masks the row of the next draft token; nullptr: nothing, or all that is finite in it.
const TokenSet* ProposalBuilder::allowed_in(std::span<const float> logits) {
  if (constraint_ == nullptr) return nullptr;
  output_.assign(committed_.begin() + static_cast<std::ptrdiff_t>(constrained_from_), committed_.end());
  output_.insert(output_.end(), branch_.begin(), branch_.end());
  const TokenSet& allowed = constraint_->allowed(output_);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (allowed.has(static_cast<Token>(i)) && std::isfinite(logits[i])) return &allowed;
  }
  return nullptr;
}

Token ProposalBuilder::draw(std::span<const float> logits) {
  REQUIRE(can_draw(), "draft tokens are drawn only on the first branch");
  Distribution q = sampler_.blank();
  sampler_.read(logits, sampling_, {committed_, branch_}, q, allowed_in(logits));
  const int depth = static_cast<int>(branch_.size());
  const Token token = draftproof::draw(q, draft_key(sequence_, position_, depth, noise_), random_);
  add(branch_, token, std::move(q));
  branch_.push_back(token);
  drawn_ = depth + 1;
  return token;
}

void ProposalBuilder::add_token(Token token) {
  add(branch_, token, Distribution::point(token));
  branch_.push_back(token);
}

void ProposalBuilder::add_sibling(Token token) {
  REQUIRE(!branch_.empty(), "a sibling is added to a draft token");
  add(std::span(branch_).first(branch_.size() - 1), token, Distribution::point(token));
}

void ProposalBuilder::rewind_to(int depth) {
  REQUIRE(depth >= 0 && depth <= static_cast<int>(branch_.size()), "a branch rewinds to a depth that it has");
  first_branch_ = first_branch_ && depth == static_cast<int>(branch_.size());
  branch_.resize(static_cast<std::size_t>(depth));
}

bool ProposalBuilder::contains(std::span<const Token> branch, Token token) const {
  return proposal_.child(last_of(branch), token) != Proposal::no_node;
}

int ProposalBuilder::last_of(std::span<const Token> branch) const {
  int last = -1;
  for (const Token token : branch) last = proposal_.child(last, token);
  return last;
}

void ProposalBuilder::add(std::span<const Token> branch, Token token, Distribution q) {
  const int depth = static_cast<int>(branch.size());
  const int above = last_of(branch);
  REQUIRE(can_add_token(branch), "siblings are added before any deeper draft token is drawn");
  REQUIRE(proposal_.child(above, token) == Proposal::no_node, "siblings are different tokens");
  int place = above + 1;  // becomes the place after all descendants of `above`
  while (place < proposal_.size() && proposal_.depth(place) >= depth) ++place;
  if (proposal_.is_chain() && depth != proposal_.size()) {
    for (int node = 0; node < proposal_.size(); ++node) proposal_.depths.push_back(node);
  }
  if (!proposal_.is_chain()) proposal_.depths.insert(proposal_.depths.begin() + place, depth);
  proposal_.tokens.insert(proposal_.tokens.begin() + place, token);
  proposal_.drawn_from.insert(proposal_.drawn_from.begin() + place, std::move(q));
}

}  // namespace draftproof
