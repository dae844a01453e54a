// SPDX-License-Identifier: MIT
// The most probable tokens of a row of logits, in the order of sampler.h: larger logit first, then smaller token. By
// it trees are grown, a DFlash2 draft takes its candidates, and a draft that is not sure enough stops.
#pragma once

#include <span>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

class Sampler;  // ref/acceptance/sampler.h

/// Returns the `count` tokens with the largest logits, fewer when fewer are above -infinity. No logit is NaN.
std::vector<Token> most_probable(std::span<const float> logits, int count);

struct ProbableToken {
  Token token;
  double probability;  // an integer of the row's Distribution at temperature 1, over its total
};

/// The same with their probabilities, without those whose integer is 0. Throws Error as Sampler::read does.
std::vector<ProbableToken> most_probable(std::span<const float> logits, int count, Sampler& sampler);

/// When a draft stops before a draft token: when the most probable token of its row is less probable than this, at
/// temperature 1 and before penalties. The row decides and never what is drawn from it, so the distribution of the text
/// is the target's under every rule: by `rejection`, to leave out a draft token because of which one was drawn would
/// be wrong.
class MinProbability {
 public:
  MinProbability() = default;  // never stops
  explicit MinProbability(double min) : min_(min) {}

  bool stops_before(std::span<const float> logits) const;
  explicit operator bool() const noexcept { return min_ > 0; }

 private:
  double min_ = 0;
};

}  // namespace draftproof
