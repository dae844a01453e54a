// SPDX-License-Identifier: MIT
#include "ref/acceptance/log_probabilities.h"

#include <algorithm>

#include "kernels/math64.h"

namespace draftproof {

LogProbabilities::LogProbabilities(std::span<const float> logits)
    : logits_(logits), best_(*std::max_element(logits.begin(), logits.end())) {
  double sum = 0;
  for (const float logit : logits) sum += exp64(logit - best_);
  log_sum_ = log64(sum);
}

std::vector<TokenLogprob> LogProbabilities::top(int count) const {
  std::vector<Token> tokens;
  for (Token token = 0; token < std::ssize(logits_); ++token) {
    const bool full = std::ssize(tokens) == count;
    if (full && !(logits_[token] > logits_[tokens.back()])) continue;
    if (full) tokens.pop_back();
    tokens.insert(std::upper_bound(tokens.begin(), tokens.end(), token,
                                   [&](Token a, Token b) { return logits_[a] > logits_[b]; }),
                  token);
  }
  std::vector<TokenLogprob> list;
  for (const Token token : tokens) list.push_back({token, of(token)});
  return list;
}

}  // namespace draftproof
