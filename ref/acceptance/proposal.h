// SPDX-License-Identifier: MIT
// A guess: a chain of tokens, each with the distribution it was really drawn from. Drafts never fill one in by hand;
// they hand logits (or a bare token) to Guesses, which draws, so the recorded q cannot differ from the sampled q.
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
  int size() const noexcept { return static_cast<int>(tokens.size()); }
};

class Guesses {
 public:
  /// The first guess decides the token at absolute position `position`, after `committed`. `noise` is the purpose under
  /// which draws are keyed: Purpose::draft for independent noise, Purpose::target to share the target's.
  Guesses(const Sampling& sampling, std::span<const Token> committed, int sequence, int position, Purpose noise,
          Chance& chance, Sampler& sampler);

  /// Draws the next guess from a row of logits; returns it.
  Token draw(std::span<const float> logits);
  /// The next guess is this token, for certain.
  void name(Token token);

  int size() const noexcept { return proposal_.size(); }
  const Proposal& proposal() const& noexcept { return proposal_; }
  Proposal proposal() && { return std::move(proposal_); }

 private:
  const Sampling& sampling_;
  std::span<const Token> committed_;
  Key next_;
  Chance& chance_;
  Sampler& sampler_;
  Proposal proposal_;
};

}  // namespace draftproof
