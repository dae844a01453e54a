// SPDX-License-Identifier: MIT
#include "oracle/spectrace/draws.h"

#include <algorithm>
#include <numeric>

namespace draftproof::spectrace {

SparseWeights::SparseWeights(const Distribution& p, const Distribution& q) {
  for (const Token token : p.tokens()) {
    if (p.weight(token) <= q.weight(token)) continue;
    tokens_.push_back(token);
    weights_.push_back(p.weight(token) - q.weight(token));
  }
}

std::uint64_t SparseWeights::sum() const { return std::accumulate(weights_.begin(), weights_.end(), std::uint64_t{0}); }

Hit SparseWeights::at(std::uint64_t coin) const {
  std::uint64_t before = 0;
  std::size_t i = 0;
  for (; coin - before >= weights_[i]; ++i) before += weights_[i];
  return {tokens_[i], before, weights_[i]};
}

Hit SparseWeights::of(Token token) const {
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < tokens_.size() && tokens_[i] <= token; ++i) {
    if (tokens_[i] == token) return {token, before, weights_[i]};
    before += weights_[i];
  }
  return {token, before, 0};
}

RealWeights::RealWeights(const RealRow& row, double unit) {
  double sum = 0;
  for (std::size_t i = 0; i < row.tokens.size(); ++i) {
    sum += row.weights[i];
    add(row.tokens[i], sum, unit * static_cast<double>(i + 5) * sum);
  }
  scale(sum);
}

RealWeights::RealWeights(const RealRow& p, const RealRow& q, double unit) {
  double sum = 0;
  double taken_from = 0;
  for (std::size_t i = 0; i < p.tokens.size(); ++i) {
    const double of_q = q.weight(p.tokens[i]);
    taken_from += p.weights[i] + of_q;
    if (p.weights[i] <= of_q) continue;
    sum += p.weights[i] - of_q;
    add(p.tokens[i], sum, unit * (static_cast<double>(tokens_.size() + 5) * sum + 4 * taken_from));
  }
  scale(sum);
}

bool RealWeights::has(Token token) const { return std::binary_search(tokens_.begin(), tokens_.end(), token); }

CoinPlace RealWeights::place_of(double coin, Token token) const {
  const auto place = std::lower_bound(tokens_.begin(), tokens_.end(), token);
  if (place == tokens_.end() || *place != token) return CoinPlace::elsewhere;
  const auto i = static_cast<std::size_t>(place - tokens_.begin());
  const double above = i == 0 ? 1.0 : coin - ends_[i - 1];
  const double below = i + 1 == tokens_.size() ? 1.0 : ends_[i] - coin;
  const double blur_above = i == 0 ? 0 : blurs_[i - 1];
  if (above < -blur_above || below < -blurs_[i]) return CoinPlace::elsewhere;
  const bool inside = above > blur_above && (i + 1 == tokens_.size() || below > blurs_[i]);
  return inside ? CoinPlace::inside : CoinPlace::within_rounding;
}

double RealWeights::blurred(double unit) const {
  double mass = 0;
  for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) mass += 2 * blurs_[i] + unit;
  return std::min(mass, 1.0);
}

void RealWeights::add(Token token, double end, double blur) {
  tokens_.push_back(token);
  ends_.push_back(end);
  blurs_.push_back(blur);
}

void RealWeights::scale(double sum) {
  for (double& end : ends_) end /= sum;
  for (double& blur : blurs_) blur /= sum;
}

}  // namespace draftproof::spectrace
