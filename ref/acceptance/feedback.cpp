// SPDX-License-Identifier: MIT
#include "ref/acceptance/feedback.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/math64.h"
#include "ref/acceptance/sampler.h"

namespace draftproof {
namespace {

/// That of a token with this weight; one without counts as one with the smallest.
double probability(std::uint64_t weight) {
  return static_cast<double>(std::max<std::uint64_t>(weight, 1)) / static_cast<double>(Distribution::total);
}

double surprise(std::uint64_t weight) { return -log64(probability(weight)) / log64(2); }

}  // namespace

Feedback::Feedback(const Sampling& sampling)
    : mirostat_(sampling.mirostat == 2),
      tau_(sampling.mirostat_tau),
      eta_(sampling.mirostat_eta),
      target_(std::clamp(sampling.adaptive_target, 0.0f, 1.0f)),
      decay_(std::clamp(sampling.adaptive_decay, 0.0f, 0.99f)),
      mu_(2 * tau_),
      sum_(target_ / (1 - decay_)),
      count_(1 / (1 - decay_)) {}

Distribution Feedback::applied_to(const Distribution& row) const { return mirostat_ ? cut(row) : drawn_to_aim(row); }

Feedback Feedback::after(const Distribution& row, Token token) const {
  Feedback next = *this;
  if (mirostat_) {
    next.mu_ = mu_ - eta_ * (surprise(applied_to(row).weight(token)) - tau_);
  } else {
    next.sum_ = probability(row.weight(token)) + decay_ * sum_;
    next.count_ = 1 + decay_ * count_;
  }
  return next;
}

Distribution Feedback::cut(const Distribution& row) const {
  std::vector<Token> left;
  std::vector<std::uint64_t> weights;
  const std::vector<Token> tokens = row.tokens();
  for (const Token token : tokens) {
    if (surprise(row.weight(token)) > mu_) continue;
    left.push_back(token);
    weights.push_back(row.weight(token));
  }
  if (!left.empty()) return Distribution::scaled(left, weights);
  return Distribution::point(*std::ranges::max_element(tokens, {}, [&](Token token) { return row.weight(token); }));
}

Distribution Feedback::drawn_to_aim(const Distribution& row) const {
  const double aim = std::clamp(2 * target_ - sum_ / count_, 0.0, 1.0);
  const std::vector<Token> tokens = row.tokens();
  std::vector<float> logits(static_cast<std::size_t>(tokens.back()) + 1, -std::numeric_limits<float>::infinity());
  for (const Token token : tokens) {
    const double off = std::fabs(probability(row.weight(token)) - aim) / 0.3;
    logits[token] = static_cast<float>(5 - 10 * off * off / (1 + off));
  }
  return compute_distribution(logits, {.temperature = 1}, {});
}

}  // namespace draftproof
