// SPDX-License-Identifier: MIT
// Positions of a text for tests of statistics: pairs of p and q of many shapes, from a seed, and a source of tokens.
#pragma once

#include <vector>

#include "oracle/sequential/fault_models.h"
#include "ref/acceptance/distribution.h"
#include "ref/acceptance/random_source.h"

namespace draftproof {

/// Returns a distribution with these proportions; the remainder goes to the largest, the first among equals.
inline Distribution in_proportion(const std::vector<double>& sizes) {
  double sum = 0;
  for (const double size : sizes) sum += size;
  std::vector<std::uint64_t> weights;
  std::uint64_t left = Distribution::total;
  std::size_t best = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    weights.push_back(static_cast<std::uint64_t>(sizes[i] / sum * 0x1p52));
    left -= weights.back();
    if (sizes[i] > sizes[best]) best = i;
  }
  weights[best] += left;
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < sizes.size(); ++i) tokens.push_back(static_cast<Token>(i));
  return Distribution::exact(tokens, weights);
}

struct Position {
  Distribution p;
  Distribution q;
};

/// Returns position number `index`: p from flat to steep; q is p with every weight changed by up to a factor of four,
/// and some tokens missing from either.
inline Position position_of(int vocabulary, int index) {
  const PhiloxSource random(99);
  int asked = 0;
  const auto below = [&](std::uint64_t bound) { return random.below({index, asked++, Purpose::target}, bound); };
  const std::uint64_t steepness = 1 + below(3);  // weights fall by up to 2^(8 steepness)
  std::vector<double> p;
  std::vector<double> q;
  for (int token = 0; token < vocabulary; ++token) {
    double size = 1 + static_cast<double>(below(1000)) / 1000;
    for (std::uint64_t halvings = below(8) * steepness; halvings > 0; --halvings) size /= 2;
    const double other = size * (0.25 + static_cast<double>(below(4000)) / 1000);
    p.push_back(token > 1 && below(16) == 0 ? 0 : size);
    q.push_back(token > 1 && below(16) == 0 ? 0 : other);
  }
  return {in_proportion(p), in_proportion(q)};
}

/// Returns the same tokens in doubles, as bets use them.
inline PositionDistributions make_distributions(const Position& position, int vocabulary) {
  PositionDistributions models;
  for (Token token = 0; token < vocabulary; ++token) {
    models.tokens.push_back(token);
    models.p.push_back(static_cast<double>(position.p.weight(token)) * 0x1p-52);
    models.q.push_back(static_cast<double>(position.q.weight(token)) * 0x1p-52);
  }
  return models;
}

}  // namespace draftproof
