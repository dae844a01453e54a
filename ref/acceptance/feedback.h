// SPDX-License-Identifier: MIT
// Mirostat 2 and adaptive p: what a token is drawn from depends on how likely the tokens before it were where they were
// drawn. A Feedback is what is known of them after a text. It is a value: a verification has one for each row of the
// drafted path, made from the one of the row before, and those of rejected draft tokens are dropped with their rows.
//
//   mirostat    mu is 2 tau at the beginning of an output. Of the tokens in their total order (larger weight first,
//   then
//               smaller token) those up to the first with -log2 p > mu are left, at least the first; after one of them
//               mu = mu - eta * (surprise - tau), surprise = -log2 of its probability among those that were left
//   adaptive p  aim = 2 target - (mean of the probabilities of the tokens before, those n tokens ago counted decay^n
//               times, as if target had come forever before), kept within 0 and 1; the weight of a token is the raw
//               weight of the logit 5 - 10 d^2 / (1 + d), rounded to float, d = |p - aim| / 0.3
//
// All in double (kernels/math64.h), from p = weight / 2^52 of the row, so only tokens with a weight can come.
#pragma once

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/sampling_params.h"
#include "ref/base/token.h"

namespace draftproof {

class Feedback {
 public:
  /// At the beginning of an output.
  explicit Feedback(const Sampling& sampling);

  /// Returns what a token is drawn from where the row is `row`.
  Distribution applied_to(const Distribution& row) const;
  /// Returns the feedback after this token, which follows where the row is `row`. One that cannot be drawn counts as
  /// one of the smallest weight.
  Feedback after(const Distribution& row, Token token) const;

  bool operator==(const Feedback&) const = default;

 private:
  Distribution cut(const Distribution& row) const;
  Distribution drawn_to_aim(const Distribution& row) const;

  bool mirostat_;
  double tau_, eta_, target_, decay_;
  double mu_ = 0;
  double sum_ = 0, count_ = 0;  // of the probabilities of adaptive p, decayed
};

}  // namespace draftproof
