// SPDX-License-Identifier: MIT
// Draws by interval: which token a coin selects from a row, or from what one row has more than another.
#pragma once

#include <cstdint>
#include <vector>

#include "oracle/spectrace/events.h"
#include "ref/acceptance/distribution.h"

namespace draftproof::spectrace {

/// A token that a coin selects: it has the interval [before, before + weight).
struct Hit {
  Token token = 0;
  std::uint64_t before = 0;
  std::uint64_t weight = 0;
};

/// Integer weights by token, ascending.
class SparseWeights {
 public:
  explicit SparseWeights(const Distribution& row) : tokens_(row.tokens()), weights_(row.weights()) {}
  SparseWeights(const Distribution& p, const Distribution& q);  // max(p - q, 0)

  std::uint64_t sum() const;
  Hit at(std::uint64_t coin) const;  // coin below sum()
  Hit of(Token token) const;         // weight 0 when it has none

 private:
  std::vector<Token> tokens_;
  std::vector<std::uint64_t> weights_;
};

/// Where a coin lies relative to a token's interval, whose edges are known up to rounding.
enum class CoinPlace { inside, within_rounding, elsewhere };

/// Real weights by token, ascending. The sum of i weights of a row may be off by i rounding units of itself, in
/// whatever order it is added up; that of a difference by four units more of what it was subtracted from.
class RealWeights {
 public:
  RealWeights(const RealRow& row, double unit);
  RealWeights(const RealRow& p, const RealRow& q, double unit);  // max(p - q, 0)

  bool is_point() const noexcept { return tokens_.size() == 1; }
  bool has(Token token) const;
  /// Returns where the coin, in [0, 1), lies relative to the token's interval.
  CoinPlace place_of(double coin, Token token) const;
  /// Returns the probability that a coin lies within rounding of an edge; `unit`: the largest gap between coins.
  double blurred(double unit) const;

 private:
  void add(Token token, double end, double blur);
  void scale(double sum);

  std::vector<Token> tokens_;
  std::vector<double> ends_;
  std::vector<double> blurs_;  // of ends
};

}  // namespace draftproof::spectrace
