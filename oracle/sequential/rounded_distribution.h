// SPDX-License-Identifier: MIT
// A row of reals as a distribution to bet on (oracle/sequential/e_process.h): integer weights, and how far from them
// the tokens of a right engine may be that computes with reals.
//
// A right engine draws a coin c and sums the row, s(i) = s(i-1) + p(i), rounded; it selects token i where s(i-1) <= c <
// s(i). With `unit` the distance of floats at 1 (2^-23 for float32) and S the sum of the row:
// - A rounding is at most unit / 2, and at most p(i), since s(i-1) is a float itself. Rounding down makes the token's
//   interval shorter; rounding up moves later intervals towards 1, and no coin reaches what lies above 1. A token's
//   rounding does one or the other: in all, these losses are at most sum of min(p(i), unit / 2), and |S - 1|. An engine
//   that scales its coin by the last sum loses no more, and what the last sum lacks to 1 is gained by some token.
// - A coin on a grid at least as fine as unit falls into an interval with a probability of its length within unit. A
// row
//   that was rounded when it was written is off by p(i) unit / 2. Sums computed in groups or as a tree differ from
//   sequential sums by a few roundings. So a token loses at most min(p(i), 4 unit) by these.
// Total variation is the sum of what tokens lose, hence at most
//     slack = sum of min(p(i), unit / 2) + sum of min(p(i), 4 unit) + |S - 1|
// plus n 2^-51 for n integer weights.
//
// For a token at a position with a draft token these add up: the draft token's draw (the slack of q), the row the token
// is drawn from after a rejection (at most the slack of p), and another unit for each of p / q, its coin, and p - q:
// slack of p + slack of q + 4 unit.
//
// Rows with many tokens less likely than 4 unit have much slack, because such an engine need not emit any of them: 0.03
// for 150 000 tokens of a language model at temperature 1; about 2^-20 n for n tokens that truncation has left.
#pragma once

#include <span>

#include "ref/acceptance/distribution.h"

namespace draftproof {

struct RoundedDistribution {
  Distribution distribution;  // every token of the row has a weight
  double slack = 0;           // in total variation, at most 1
};

/// `tokens` must ascend; `weights`, one for each, must be positive and finite. `unit` is that of the sums the engine
/// draws with.
RoundedDistribution rounded_distribution(std::span<const Token> tokens, std::span<const double> weights, double unit);

}  // namespace draftproof
