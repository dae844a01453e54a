// SPDX-License-Identifier: MIT
// The log-probabilities of a row of logits, before penalties and temperature.
#pragma once

#include <span>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

struct TokenLogprob {
  Token token = 0;
  double logprob = 0;

  bool operator==(const TokenLogprob&) const = default;
};

/// z_token - log(sum of exp(z)), in double, summed in order of token. The logits outlive it.
class LogProbabilities {
 public:
  explicit LogProbabilities(std::span<const float> logits);

  double of(Token token) const { return logits_[token] - best_ - log_sum_; }
  /// Returns the tokens with the highest logits, of equal ones the smaller token first.
  std::vector<TokenLogprob> top(int count) const;

 private:
  std::span<const float> logits_;
  double best_;
  double log_sum_ = 0;
};

}  // namespace draftproof
