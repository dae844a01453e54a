// SPDX-License-Identifier: MIT
#include "ref/acceptance/distribution.h"

#include <algorithm>
#include <cstddef>

#include "ref/base/require.h"

namespace draftproof {
namespace {

using Wide = unsigned __int128;

constexpr std::size_t most_shares = std::size_t{1} << 23;  // so that their sum fits 64 bits

Token token_at(std::span<const Token> tokens, std::size_t index) {
  return tokens.empty() ? static_cast<Token>(index) : tokens[index];
}

void require_ascending(std::span<const Token> tokens, std::size_t count) {
  if (tokens.empty()) return;
  REQUIRE(tokens.size() == count, "there is one token for each weight");
  REQUIRE(tokens[0] >= 0, "tokens are not negative");
  for (std::size_t i = 1; i < count; ++i) REQUIRE(tokens[i - 1] < tokens[i], "tokens ascend, each once");
}

}  // namespace

Distribution Distribution::point(Token token) {
  Distribution result;
  result.become_point(token);
  return result;
}

Distribution Distribution::quantised(const Shares& shares) {
  Distribution result;
  result.become_quantised(shares);
  return result;
}

void Distribution::become_point(Token token) {
  REQUIRE(token >= 0, "tokens are not negative");
  tokens_.assign(1, token);
  weights_.assign(1, total);
}

// With R = floor(2^103 / S) for the sum S of the shares: s * R / 2^51 <= s / S * 2^52, so the weights sum to at
// most 2^52 and what is left is not negative. R > 2^103 / S - 1 and s <= 2^40, so a weight, floored, is above
// s / S * 2^52 - 2^-11 - 1, and over n shares less than n + n / 2048 is left. S >= 2^40 keeps R <= 2^63.
void Distribution::become_quantised(const Shares& shares) {
  const std::size_t room = shares.blocks.size() * block_size;
  REQUIRE(room > 0 && room <= most_shares, "a distribution has between 1 and 2^23 shares");
  REQUIRE(shares.sum >= largest_share, "the shares sum to at least 2^40");
  const std::size_t first = find_block_with(shares.blocks, static_cast<float>(largest_share), shares.values.data());
  REQUIRE(first < shares.blocks.size(), "the largest share is 2^40");
  const auto reciprocal = static_cast<std::uint64_t>((Wide{1} << 103) / shares.sum);

  tokens_.resize(std::max(room, tokens_.size()));  // not smaller first: growing fills with zeros
  weights_.resize(std::max(room, weights_.size()));
  const auto [count, sum] =
      find_weights(shares.blocks, shares.values.data(), reciprocal, tokens_.data(), weights_.data());
  tokens_.resize(count);
  weights_.resize(count);
  const std::uint64_t left = total - sum;
  REQUIRE(left <= room + room / 2048, "rounding leaves less than one unit per share");
  const auto* block = shares.values.data() + shares.blocks[first] * block_size;
  const auto* largest = std::find(block, block + block_size, static_cast<float>(largest_share));
  const auto token = static_cast<Token>(largest - shares.values.data());
  const auto place = std::lower_bound(tokens_.begin(), tokens_.end(), token);
  weights_[static_cast<std::size_t>(place - tokens_.begin())] += left;
}

Distribution Distribution::exact(std::span<const Token> tokens, std::span<const std::uint64_t> weights) {
  require_ascending(tokens, weights.size());
  Distribution result;
  Wide sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (weights[i] == 0) continue;
    result.tokens_.push_back(token_at(tokens, i));
    result.weights_.push_back(weights[i]);
  }
  REQUIRE(sum == total, "the weights of a distribution sum to its total");
  return result;
}

std::uint64_t Distribution::weight(Token token) const noexcept {
  const auto at = std::lower_bound(tokens_.begin(), tokens_.end(), token);
  if (at == tokens_.end() || *at != token) return 0;
  return weights_[static_cast<std::size_t>(at - tokens_.begin())];
}

Fingerprint Distribution::fingerprint() const {
  Digest digest;
  digest.add(static_cast<std::uint64_t>(tokens_.size()));
  digest.add(tokens());
  digest.add(weights());
  return digest.value();
}

Residual residual(const Distribution& p, const Distribution& q) {
  Residual result;
  std::size_t j = 0;
  for (std::size_t i = 0; i < p.tokens().size(); ++i) {
    const Token token = p.tokens()[i];
    while (j < q.tokens().size() && q.tokens()[j] < token) ++j;
    const bool shared = j < q.tokens().size() && q.tokens()[j] == token;
    const std::uint64_t taken = shared ? q.weights()[j] : 0;
    if (p.weights()[i] <= taken) continue;
    result.tokens.push_back(token);
    result.weights.push_back(p.weights()[i] - taken);
  }
  return result;
}

}  // namespace draftproof
