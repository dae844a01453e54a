// SPDX-License-Identifier: MIT
// Draws by interval: what a coin falls on, along a row or along what one row has more than another.
#pragma once

#include <cstdint>
#include <vector>

#include "oracle/spectrace/events.h"
#include "ref/acceptance/distribution.h"

namespace draftproof::spectrace {

/// Token, its weight and the weight before it, of what a coin falls on.
struct Hit {
  Token token = 0;
  std::uint64_t before = 0;
  std::uint64_t weight = 0;
};

/// Integer weights by token, ascending.
class Weights {
 public:
  explicit Weights(const Distribution& row) : tokens_(row.tokens()), weights_(row.weights()) {}
  Weights(const Distribution& p, const Distribution& q);  // max(p - q, 0)

  std::uint64_t sum() const;
  Hit at(std::uint64_t coin) const;  // below sum()
  Hit of(Token token) const;         // weight 0 when it has none

 private:
  std::vector<Token> tokens_;
  std::vector<std::uint64_t> weights_;
};

/// Whether a coin falls on a token, where every edge between tokens is known but for rounding.
enum class Rejection { on_it, within_rounding, elsewhere };

/// Real weights by token, ascending. The sum of i tokens of a row may be off by i rounding units of itself, however it
/// is added up; of a difference, by four units more of what it was taken from.
class RealWeights {
 public:
  RealWeights(const RealRow& row, double unit);
  RealWeights(const RealRow& p, const RealRow& q, double unit);  // max(p - q, 0)

  bool is_point() const noexcept { return tokens_.size() == 1; }
  bool has(Token token) const;
  Rejection of(double coin, Token token) const;
  /// How likely a coin is to fall so near to an edge; `unit` is the most that coins are apart.
  double blurred(double unit) const;

 private:
  void add(Token token, double end, double blur);
  void scale(double sum);

  std::vector<Token> tokens_;
  std::vector<double> ends_;
  std::vector<double> blurs_;  // of ends
};

}  // namespace draftproof::spectrace
