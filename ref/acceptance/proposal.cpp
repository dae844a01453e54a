// SPDX-License-Identifier: MIT
#include "ref/acceptance/proposal.h"

#include <utility>

#include "ref/acceptance/draw.h"

namespace draftproof {

Guesses::Guesses(const Sampling& sampling, std::span<const Token> committed, int sequence, int position, Purpose noise,
                 Chance& chance, Sampler& sampler)
    : sampling_(sampling), committed_(committed), next_{sequence, position, noise}, chance_(chance),
      sampler_(sampler) {}

Token Guesses::draw(std::span<const float> logits) {
  Distribution q = sampler_.blank();
  sampler_.read(logits, sampling_, {committed_, proposal_.tokens}, q);
  const Token token = draftproof::draw(q, next_, chance_);
  proposal_.tokens.push_back(token);
  proposal_.drawn_from.push_back(std::move(q));
  ++next_.position;
  return token;
}

void Guesses::name(Token token) {
  proposal_.drawn_from.push_back(Distribution::point(token));
  proposal_.tokens.push_back(token);
  ++next_.position;
}

}  // namespace draftproof
