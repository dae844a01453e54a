// SPDX-License-Identifier: MIT
// A right engine of float32 for tests of evidence: rows by softmax of logits, tokens selected by rounded sums with
// coins of 24 bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

using Bits = std::mt19937_64;

inline double coin_of_24_bits(Bits& bits) { return static_cast<double>(bits() >> 40) * 0x1p-24; }

/// Returns nearly normal numbers: mean 0, standard deviation 1.
inline double bell(Bits& bits) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += coin_of_24_bits(bits);
  return sum;
}

inline std::vector<float> softmax(const std::vector<float>& logits) {
  float max = logits[0];
  for (const float logit : logits) max = std::max(max, logit);
  std::vector<float> row;
  float sum = 0;
  for (const float logit : logits) {
    row.push_back(std::exp(logit - max));
    sum += row.back();
  }
  for (float& p : row) p /= sum;
  return row;
}

inline std::vector<float> row_of(int vocabulary, double deviation, Bits& bits) {
  std::vector<float> logits;
  for (int token = 0; token < vocabulary; ++token) logits.push_back(static_cast<float>(deviation * bell(bits)));
  return softmax(logits);
}

/// A coin beyond the last sum selects the last token with a weight.
inline Token walk(const std::vector<float>& row, double coin) {
  float sum = 0;
  Token last = 0;
  for (std::size_t token = 0; token < row.size(); ++token) {
    sum += row[token];
    if (row[token] > 0) last = static_cast<Token>(token);
    if (coin < double{sum}) return static_cast<Token>(token);
  }
  return last;
}

/// Returns a row as a trace states it.
struct StatedRow {
  std::vector<Token> tokens;
  std::vector<double> weights;
};

inline StatedRow stated(const std::vector<float>& row) {
  StatedRow result;
  for (std::size_t token = 0; token < row.size(); ++token) {
    if (row[token] == 0) continue;
    result.tokens.push_back(static_cast<Token>(token));
    result.weights.push_back(row[token]);
  }
  return result;
}

}  // namespace draftproof
