// SPDX-License-Identifier: MIT
#include "ref/acceptance/distribution.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>

#include "ref/acceptance/row_scan.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

using Wide = unsigned __int128;

constexpr std::size_t max_raw_weights = std::size_t{1} << 23;  // their sum must fit 64 bits

Token token_at(std::span<const Token> tokens, std::size_t index) {
  return tokens.empty() ? static_cast<Token>(index) : tokens[index];
}

/// Returns the place of a token block in an ascending list; blocks.size() when it is missing.
std::size_t place_of(TokenBlocks blocks, std::uint32_t block) {
  const auto at = std::lower_bound(blocks.begin(), blocks.end(), block);
  return at == blocks.end() || *at != block ? blocks.size() : static_cast<std::size_t>(at - blocks.begin());
}

constexpr std::array<std::uint64_t, token_block_size> no_weights{};

/// The token block of a token, and the index of the token in it.
std::uint32_t block_of(Token token) { return static_cast<std::uint32_t>(token) / token_block_size; }
std::size_t offset_of(Token token) { return static_cast<std::size_t>(token) % token_block_size; }

WeightBlock block_or_none(const Distribution& distribution, std::uint32_t block) {
  const std::size_t place = place_of(distribution.blocks(), block);
  return place < distribution.blocks().size() ? distribution.block(place) : WeightBlock(no_weights);
}

std::uint64_t sum_of_weights(std::span<const std::uint64_t> weights) {
  return std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
}

/// Calls f(token, weight) for the positive weights, tokens ascending.
template <class Weights, class Function>
void for_each_weight(const Weights& weights, const Function& f) {
  for (std::size_t place = 0; place < weights.blocks().size(); ++place) {
    const auto values = weights.block(place);
    for (std::size_t i = 0; i < token_block_size; ++i)
      if (values[i] > 0) f(static_cast<Token>(weights.blocks()[place] * token_block_size + i), values[i]);
  }
}

template <class Weights>
std::vector<Token> tokens_of(const Weights& weights) {
  std::vector<Token> tokens;
  for_each_weight(weights, [&](Token token, std::uint64_t) { tokens.push_back(token); });
  return tokens;
}

template <class Weights>
std::vector<std::uint64_t> weights_of(const Weights& weights) {
  std::vector<std::uint64_t> values;
  for_each_weight(weights, [&](Token, std::uint64_t weight) { values.push_back(weight); });
  return values;
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

Distribution Distribution::quantized(const FixedPointWeights& raw) {
  Distribution result;
  result.become_quantized(raw);
  return result;
}

void Distribution::become_point(Token token) {
  REQUIRE(token >= 0, "tokens are not negative");
  blocks_.assign(1, block_of(token));
  sums_.assign(1, total);
  values_.resize(std::max(token_block_size, values_.size()));
  std::fill_n(values_.begin(), token_block_size, 0);
  values_[offset_of(token)] = total;
}

// Let S be the sum of the n raw weights s and R = floor(2^103 / S). s * R / 2^51 <= s / S * 2^52, so the weights sum to
// at most 2^52 and the remainder is not negative. R > 2^103 / S - 1 and s <= 2^40, so a floored weight is above
// s / S * 2^52 - 2^-11 - 1, and the remainder is below n + n / 2048. S >= 2^40 keeps R <= 2^63.
void Distribution::become_quantized(const FixedPointWeights& raw) {
  const std::size_t room = raw.blocks.size() * token_block_size;
  REQUIRE(room > 0 && room <= max_raw_weights, "a distribution has between 1 and 2^23 raw weights");
  REQUIRE(raw.sum >= largest_weight, "the raw weights sum to at least 2^40");
  const std::size_t first = find_block_with(raw.blocks, static_cast<float>(largest_weight), raw.values.data());
  REQUIRE(first < raw.blocks.size(), "the largest raw weight is 2^40");
  const auto reciprocal = static_cast<std::uint64_t>((Wide{1} << 103) / raw.sum);

  blocks_.resize(raw.blocks.size());
  sums_.resize(raw.blocks.size());
  values_.resize(std::max(room, values_.size()));
  const auto [count, sum] =
      normalize_raw_weights(raw.blocks, raw.values.data(), reciprocal, blocks_.data(), sums_.data(), values_.data());
  blocks_.resize(count);
  sums_.resize(count);
  const std::uint64_t remainder = total - sum;
  REQUIRE(remainder <= room + room / 2048, "rounding leaves less than one unit per raw weight");
  const auto* block = raw.values.data() + raw.blocks[first] * token_block_size;
  const auto* largest = std::find(block, block + token_block_size, static_cast<float>(largest_weight));
  const std::size_t place = place_of(blocks_, raw.blocks[first]);
  values_[place * token_block_size + static_cast<std::size_t>(largest - block)] += remainder;
  sums_[place] += remainder;
}

Distribution Distribution::exact(std::span<const Token> tokens, std::span<const std::uint64_t> weights) {
  require_ascending(tokens, weights.size());
  Distribution result;
  Wide sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (weights[i] == 0) continue;
    const Token token = token_at(tokens, i);
    if (result.blocks_.empty() || result.blocks_.back() != block_of(token)) {
      result.blocks_.push_back(block_of(token));
      result.sums_.push_back(0);
      result.values_.resize(result.values_.size() + token_block_size);
    }
    result.sums_.back() += weights[i];
    result.values_[(result.blocks_.size() - 1) * token_block_size + offset_of(token)] = weights[i];
  }
  REQUIRE(sum == total, "the weights of a distribution sum to its total");
  return result;
}

void Distribution::become_mixture(const Distribution& p, const Distribution& q, float share) {
  constexpr Wide whole = Wide{1} << 24;
  const auto of_q = static_cast<std::uint64_t>(std::min(1.0, double{share}) * 0x1p+24 + 0.5);
  std::vector<Token> tokens;
  std::ranges::set_union(p.tokens(), q.tokens(), std::back_inserter(tokens));
  std::vector<std::uint64_t> weights;
  std::uint64_t rest = total;
  for (const Token token : tokens) {
    const Wide mixed = p.weight(token) * (whole - of_q) + q.weight(token) * Wide{of_q};
    weights.push_back(static_cast<std::uint64_t>(mixed >> 24));
    rest -= weights.back();
  }
  *std::ranges::max_element(weights) += rest;
  *this = exact(tokens, weights);
}

Distribution Distribution::scaled(std::span<const Token> tokens, std::span<const std::uint64_t> weights) {
  const std::uint64_t sum = sum_of_weights(weights);
  REQUIRE(sum > 0, "some weight is positive");
  std::vector<std::uint64_t> scaled;
  std::uint64_t rest = total;
  for (const std::uint64_t weight : weights) {
    scaled.push_back(static_cast<std::uint64_t>(Wide{weight} * total / sum));
    rest -= scaled.back();
  }
  scaled[std::ranges::max_element(weights) - weights.begin()] += rest;
  return exact(tokens, scaled);
}

std::uint64_t Distribution::weight(Token token) const noexcept {
  return block_or_none(*this, block_of(token))[offset_of(token)];
}

bool Distribution::is_point() const noexcept {
  return blocks_.size() == 1 && std::count(values_.begin(), values_.begin() + token_block_size, total) == 1;
}

std::vector<Token> Distribution::tokens() const { return tokens_of(*this); }
std::vector<std::uint64_t> Distribution::weights() const { return weights_of(*this); }

std::uint64_t Distribution::bytes() const noexcept {
  return blocks_.capacity() * sizeof(blocks_[0]) + sums_.capacity() * sizeof(sums_[0]) +
         values_.capacity() * sizeof(values_[0]);
}

Fingerprint Distribution::fingerprint() const {
  const std::vector<Token> tokens = this->tokens();
  Digest digest;
  digest.add(static_cast<std::uint64_t>(tokens.size()));
  digest.add(std::span<const Token>(tokens));
  digest.add(std::span<const std::uint64_t>(weights()));
  return digest.value();
}

bool Distribution::operator==(const Distribution& other) const noexcept {
  const auto end = values_.begin() + static_cast<std::ptrdiff_t>(blocks_.size() * token_block_size);
  return blocks_ == other.blocks_ && std::equal(values_.begin(), end, other.values_.begin());
}

Residual::Residual(const Distribution& p, const Distribution& q, std::uint64_t of_p, std::uint64_t of_q)
    : p_(p), q_(q), of_p_(of_p), of_q_(of_q) {
  REQUIRE(std::max(of_p, of_q) <= std::uint64_t{1} << 11, "sums of weights have 64 bits");
  blocks_.reserve(p.blocks().size());
  sums_.reserve(p.blocks().size());
  for (std::size_t place = 0; place < p.blocks().size(); ++place) {
    const std::uint32_t block = p.blocks()[place];
    const WeightBlock of_q_here = block_or_none(q, block);
    const std::uint64_t sum = of_p == of_q ? of_p * sum_of_difference(p.block(place).data(), of_q_here.data())
                                           : sum_of_weights(difference(p.block(place), of_q_here));
    if (sum == 0) continue;
    blocks_.push_back(block);
    sums_.push_back(sum);
  }
}

Residual::Block Residual::block(std::size_t place) const noexcept {
  const WeightBlock p = block_or_none(p_, blocks_[place]);
  return difference(p, block_or_none(q_, blocks_[place]));
}

Residual::Block Residual::difference(WeightBlock p, WeightBlock q) const noexcept {
  Block difference;
  for (std::size_t i = 0; i < token_block_size; ++i) {
    const std::uint64_t wanted = of_p_ * p[i];
    const std::uint64_t offered = of_q_ * q[i];
    difference[i] = wanted > offered ? wanted - offered : 0;
  }
  return difference;
}

std::uint64_t Residual::sum() const noexcept { return sum_of_weights(sums_); }

std::vector<Token> Residual::tokens() const { return tokens_of(*this); }
std::vector<std::uint64_t> Residual::weights() const { return weights_of(*this); }

}  // namespace draftproof
