// SPDX-License-Identifier: MIT
// A row of reals as a law to bet on (oracle/sequential/e_process.h): integer weights, and how far from them the tokens of an
// engine may be that is right and computes with reals.
//
// A right engine draws a coin c and walks sums of the row, s(i) = s(i-1) + p(i), rounded; token i is what s(i-1) <= c <
// s(i) picks. With `unit` the distance of floats at 1 (2^-23 for float32) and S the sum of the row:
// - A rounding is at most unit / 2, and at most p(i), since s(i-1) is a float itself. Rounding down makes the token's
//   interval shorter; rounding up pushes what comes later towards 1, and what lies above 1 no coin reaches. A token's
//   rounding does one or the other: in all, these losses are at most sum of min(p(i), unit / 2), and |S - 1|. An engine
//   that scales its coin by the last sum loses no more, and what the last sum lacks to 1 is somebody's gain.
// - A coin on a grid at least as fine as unit falls into an interval with its length but for unit. A row that was
//   rounded when it was written is off by p(i) unit / 2. Sums made in blocks or as a tree are off from the walk's by a
//   few roundings. So a token loses at most min(p(i), 4 unit) by these.
// Total variation is the sum of what tokens lose, hence at most
//     slack = sum of min(p(i), unit / 2) + sum of min(p(i), 4 unit) + |S - 1|
// and n 2^-51 for n integer weights.
//
// A token that was judged against a draft token is as far off as the draft token's draw (the slack of q), the row it is
// drawn from after a rejection (at most the slack of p), and for each of p / q, its coin, and p - q another unit: slack
// of p + slack of q + 4 unit.
//
// Rows of many tokens that are less likely than 4 unit have much slack, because such an engine need not say any of
// them: 0.03 for 150 000 tokens of a language model at temperature 1; some 2^-20 n for n tokens that a cut has left.
#pragma once

#include <span>

#include "ref/acceptance/distribution.h"

namespace draftproof {

struct RoundedDistribution {
  Distribution distribution;  // every token of the row has a weight
  double slack = 0;  // in total variation, at most 1
};

/// `tokens` ascend, each once; `weights`, one for each, are positive and finite. `unit` is that of the sums the engine
/// draws with.
RoundedDistribution rounded_distribution(std::span<const Token> tokens, std::span<const double> weights, double unit);

}  // namespace draftproof
