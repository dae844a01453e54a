// SPDX-License-Identifier: MIT
// The law of the next token as an engine of other numerics may have it: its probabilities before any cut lie at most
// `slack`, in total variation, from those that our logits give; then it cuts them, at edges that move with them.
//
// No probability is more than slack away from ours, and no two change places unless they are within 2 slack. So every
// cut (top-k, top-p, min-p keep the likeliest tokens) keeps the tokens `sure`, and none but those `possible`. With Z
// the mass that our own cut keeps, and F that of the tokens possible and not sure, the two masses that are kept differ
// by at most 2 slack + F in sum of absolute values, and scaled to one by at most (2 slack + F) / Z in total variation
// (the triangle inequality, twice). Without a cut, by slack.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/sampling.h"

namespace draftproof::spectrace {

struct NearbyDistribution {
  Distribution p;               // ours
  double slack = 0;             // how far the engine's may lie from it; 1: anything may be said
  std::vector<Token> possible;  // ascending; no other token may be said
  bool allows(Token token) const;
};

/// `order`: names of samplers, the first applied first: penalties (first, where they are on), temperature, top_k,
/// top_p, min_p. Those that are left out are applied in our order after those that are there. None where a name is
/// another, or comes in a place in which it is not known what it would do. Temperature above 0.
std::optional<NearbyDistribution> nearby_distribution(std::span<const float> logits, const Sampling& sampling,
                                const std::vector<std::string>& order, std::span<const Token> text, double slack);

/// Ours: docs/architecture.md.
const std::vector<std::string>& our_order();

/// The best token of the logits, penalties applied, and how far another one lies behind.
class BestToken {
 public:
  BestToken(std::span<const float> logits, const Sampling& sampling, std::span<const Token> text);
  Token token() const noexcept { return best_; }
  double gap(Token other) const;    // of logits
  double apart(Token other) const;  // of probabilities at temperature 1

 private:
  std::vector<double> logits_;
  Token best_ = 0;
  double sum_ = 0;  // of exp(logit - best logit)
};

}  // namespace draftproof::spectrace
