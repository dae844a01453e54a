// SPDX-License-Identifier: MIT
// The distribution of the next token as an engine of other numerics may have it. Its probabilities before any cut lie
// at most `slack`, in total variation, from those of our logits. Then it cuts them, at edges that move with them.
//
// No probability is more than slack away from ours, and two tokens change places only when they are within 2 slack. So
// every cut (top-k, top-p and min-p keep the likeliest tokens) keeps the tokens `sure`, and only those `possible`. Let
// Z be the mass that our own cut keeps, and F the mass of the tokens that are possible and not sure. The two kept
// masses differ by at most 2 slack + F in sum of absolute values. Scaled to one they differ by at most (2 slack + F) /
// Z in total variation (the triangle inequality, twice). Without a cut the distance is at most slack.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/sampling_params.h"
#include "ref/acceptance/token_set.h"

namespace draftproof::spectrace {

struct NearbyDistribution {
  Distribution p;               // ours
  double slack = 0;             // how far the engine's may lie from it; 1: any distribution is allowed
  std::vector<Token> possible;  // ascending; the engine may emit no other token
  bool allows(Token token) const;
};

/// Returns the distribution for these logits, or nothing where `order` has an unknown name, or a name at a place where
/// its effect is not known, or where sampler_of_own_numerics names one. `order`: names of samplers, the first applied
/// first (samplers_in_effect); penalties must be first where they are on. The temperature must be above 0. `allowed`:
/// the tokens that a grammar allows, a cut before all others; nullptr: all.
std::optional<NearbyDistribution> nearby_distribution(std::span<const double> logits, const Sampling& sampling,
                                                      const std::vector<std::string>& order,
                                                      std::span<const Token> text, double slack,
                                                      const TokenSet* allowed = nullptr);

/// What a token is drawn from, within a slack.
struct NextToken {
  Distribution p;
  double slack = 0;
};

/// Returns what a token is drawn from that is none of these, where any token is drawn from p within the slack; nothing
/// where these have all of p.
std::optional<NextToken> without(const Distribution& p, const std::vector<Token>& left_out, double slack);

/// Returns whether sampling drops tokens that have a probability.
bool cuts(const Sampling& s) noexcept;

/// Returns the name of a sampler that is on, and whose effect on a row of other numerics is not bounded here; nullptr:
/// there is none.
const char* sampler_of_own_numerics(const Sampling& sampling) noexcept;

/// Returns our order of samplers, which is that of Hugging Face: docs/architecture.md.
const std::vector<std::string>& our_order();

/// An order in which engines apply samplers, the first applied first.
struct KnownOrder {
  const char* engine;
  std::vector<std::string> samplers;
};
/// Returns the orders that are tried where a trace states none, ours first.
const std::vector<KnownOrder>& known_orders();

/// Returns the first name that is no sampler known here; nothing where all are.
std::optional<std::string> unknown_sampler(const std::vector<std::string>& order);

/// Returns the names of `order` that change anything, with those that it lacks after them, in our order. Samplers of
/// other engines that a trace has no field for are off.
std::vector<std::string> samplers_in_effect(const std::vector<std::string>& order, const Sampling& sampling);

/// The best token of the logits after biases and penalties, of those that are `allowed` (nullptr: all), and how far
/// another token lies below it.
class BestToken {
 public:
  BestToken(std::span<const double> logits, const Sampling& sampling, std::span<const Token> text,
            const TokenSet* allowed = nullptr);
  Token token() const noexcept { return best_; }
  double gap(Token other) const;    // of logits; infinite for one that is not allowed
  double apart(Token other) const;  // of probabilities at temperature 1
  double gap_to_second() const;     // infinite where no other token is allowed

  /// Returns the probability, at most, that another token is the best of an engine whose differences of logits err by
  /// a logistic distribution of this scale.
  double exchanged(double scale) const;

  /// Returns a gap that no numerics of a right engine explains. A token with this gap is the best of another engine
  /// only where that one errs on a logit by a quarter of the distance from the best token to the average of the
  /// vocabulary. Weights of four bits err by a sixtieth (measured: docs/spectrace.md). In a row that is nearly flat it
  /// is 8 logits, a factor of 3000 in probability.
  double gap_beyond_numerics() const;

 private:
  std::vector<double> logits_;
  Token best_ = 0;
  double sum_ = 0;  // of exp(logit - best logit)
};

}  // namespace draftproof::spectrace
