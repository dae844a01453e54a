// SPDX-License-Identifier: MIT
#include "ref/acceptance/distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/acceptance/naive.h"
#include "tests/acceptance/numbers.h"

namespace draftproof::distribution_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t total = Distribution::total;
constexpr std::uint64_t one = Distribution::largest_weight;

std::uint64_t sum(std::span<const std::uint64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

/// Raw weights by token, as floats in token blocks.
FixedPointWeights in_blocks(const std::vector<std::uint64_t>& by_token) {
  FixedPointWeights raw;
  const std::size_t blocks = (by_token.size() + token_block_size - 1) / token_block_size;
  for (std::size_t b = 0; b < blocks; ++b) raw.blocks.push_back(static_cast<std::uint32_t>(b));
  raw.values.resize(raw.blocks.size() * token_block_size);
  for (std::size_t i = 0; i < by_token.size(); ++i) raw.values[i] = static_cast<float>(by_token[i]);
  raw.sum = sum(by_token);
  return raw;
}

Distribution quantized(const std::vector<std::uint64_t>& by_token) {
  return Distribution::quantized(in_blocks(by_token));
}

/// Returns an integer of at most 24 significant bits, as every raw weight is, and of at most `bits` bits.
std::uint64_t random_raw_weight(Numbers& numbers, unsigned bits) {
  const unsigned size = 1 + static_cast<unsigned>(numbers.next() % bits);
  const std::uint64_t digits = numbers.next() >> 40;
  return size < 24 ? digits >> (24 - size) : digits << (size - 24);
}

TEST(Distribution, APointHasAllTheWeight) {
  const Distribution point = Distribution::point(7);
  EXPECT_TRUE(point.is_point());
  EXPECT_EQ(point.weight(7), total);
  EXPECT_EQ(point.weight(6), 0u);
  EXPECT_THAT(point.sums(), ElementsAre(total));
  EXPECT_GE(point.bytes(), sizeof(std::uint32_t) + (1 + token_block_size) * sizeof(std::uint64_t));
  std::vector<std::uint64_t> raw(8);
  raw[7] = one;
  EXPECT_EQ(point, quantized(raw));
}

TEST(Distribution, ExactStoresItsWeightsWithoutZeros) {
  const Distribution p = Distribution::exact({}, std::vector<std::uint64_t>{0, total - 5, 0, 5});
  EXPECT_THAT(p.tokens(), ElementsAre(1, 3));
  EXPECT_THAT(p.weights(), ElementsAre(total - 5, 5));
}

TEST(Distribution, EqualRawWeightsDifferOnlyByTheRemainderOfTheFirst) {
  const Distribution p = quantized(std::vector<std::uint64_t>(3, one));
  EXPECT_THAT(p.weights(), ElementsAre(total / 3 + 1, total / 3, total / 3));
}

TEST(Distribution, TheRemainderGoesToTheLargestRawWeight) {
  const std::uint64_t third = one / 3 >> 16 << 16;
  const std::uint64_t seventh = one / 7 >> 15 << 15;
  const Distribution p = quantized({0, 0, third, 0, 0, one, 0, 0, 0, seventh});
  const std::uint64_t all = third + one + seventh;
  const auto floored = [&](std::uint64_t weight) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(weight) * total / all);
  };
  EXPECT_THAT(p.tokens(), ElementsAre(2, 5, 9));
  EXPECT_EQ(p.weight(2), floored(third));
  EXPECT_EQ(p.weight(9), floored(seventh));
  EXPECT_EQ(p.weight(5), total - floored(third) - floored(seventh));
}

TEST(Distribution, RawWeightsBelowOneUnitHaveWeightZero) {
  std::vector<std::uint64_t> raw(5000, one);
  raw[17] = 1;
  raw[18] = 0;
  const Distribution p = quantized(raw);
  EXPECT_EQ(p.weight(17), 0u);
  EXPECT_EQ(p.weight(18), 0u);
  EXPECT_EQ(p.tokens().size(), 4998u);
  EXPECT_EQ(sum(p.weights()), total);
}

TEST(Distribution, QuantizedEqualsTheNaiveComputationForRawWeightsOfEverySize) {
  Numbers numbers{1};
  Distribution reused;
  for (int round = 0; round < 2000; ++round) {
    const std::size_t count = round % 100 == 0 ? 20000 : 1 + numbers.next() % 200;
    const unsigned bits = 24 + static_cast<unsigned>(numbers.next() % 17);
    std::vector<std::uint64_t> raw;
    for (std::size_t i = 0; i < count; ++i)
      raw.push_back(numbers.next() % 4 == 0 ? 0 : random_raw_weight(numbers, bits));
    raw[numbers.next() % count] = one;
    if (round % 3 == 0) raw[numbers.next() % count] = one;
    const Distribution expected = naive_quantized(raw);
    ASSERT_EQ(quantized(raw), expected) << "round " << round;
    reused.become_quantized(in_blocks(raw));
    ASSERT_EQ(reused, expected) << "round " << round;
  }
}

TEST(Distribution, TokenBlocksThatAreNotListedAreNotRead) {
  FixedPointWeights raw = in_blocks(std::vector<std::uint64_t>(4 * token_block_size, one));
  raw.blocks = {1, 3};
  raw.sum /= 2;
  const Distribution p = Distribution::quantized(raw);
  EXPECT_EQ(p.tokens().size(), 2 * token_block_size);
  EXPECT_EQ(p.tokens().front(), static_cast<Token>(token_block_size));
  EXPECT_EQ(p.weight(3 * static_cast<Token>(token_block_size)), total / (2 * token_block_size));
}

TEST(Distribution, TheRemainderIsNotNegativeAndWithinItsBound) {
  // The bounds derived in distribution.cpp, on raw weights of every size down to single units.
  Numbers numbers{1};
  for (int round = 0; round < 3000; ++round) {
    const std::size_t count = round % 100 == 0 ? 20000 : 1 + numbers.next() % 40;
    std::vector<std::uint64_t> raw;
    for (std::size_t i = 0; i < count; ++i) raw.push_back(random_raw_weight(numbers, 40));
    raw[numbers.next() % count] = one;
    const std::uint64_t reciprocal = static_cast<std::uint64_t>((static_cast<unsigned __int128>(1) << 103) / sum(raw));
    const Distribution p = quantized(raw);
    ASSERT_EQ(sum(p.weights()), total);
    const auto largest = static_cast<std::size_t>(std::max_element(raw.begin(), raw.end()) - raw.begin());
    const auto floored = static_cast<std::uint64_t>(static_cast<unsigned __int128>(one) * reciprocal >> 51);
    const std::uint64_t left = p.weight(static_cast<Token>(largest)) - floored;
    ASSERT_LE(left, count + count / 2048);
  }
}

TEST(Distribution, TheLargestNumberOfRawWeightsFits) {
  const Distribution p = quantized(std::vector<std::uint64_t>(std::size_t{1} << 23, one));
  EXPECT_EQ(p.weight(0), total >> 23);
  EXPECT_EQ(p.weight((1 << 23) - 1), total >> 23);
}

TEST(Distribution, ATokenBlockWhoseWeightsRoundToZeroLeavesTheSumsOfTheOthers) {
  std::vector<std::uint64_t> raw(5000 + 2 * token_block_size, one);
  std::fill_n(raw.begin() + token_block_size, token_block_size, 1);  // less than a unit beside 5000 times 2^40
  const Distribution p = quantized(raw);
  ASSERT_EQ(p.blocks()[1], 2u);
  for (std::size_t place = 0; place < p.blocks().size(); ++place)
    ASSERT_EQ(p.sums()[place], sum(p.block(place))) << place;
}

TEST(Distribution, FingerprintsDistinguishTokensAndWeights) {
  const auto exact = [](std::vector<Token> tokens, std::vector<std::uint64_t> weights) {
    return Distribution::exact(tokens, weights);
  };
  const Distribution p = exact({1, 2}, {5, total - 5});
  EXPECT_EQ(p.fingerprint(), exact({1, 2}, {5, total - 5}).fingerprint());
  EXPECT_NE(p.fingerprint(), exact({1, 3}, {5, total - 5}).fingerprint());
  EXPECT_NE(p.fingerprint(), exact({1, 2}, {6, total - 6}).fingerprint());
  EXPECT_NE(p.fingerprint(), Distribution::point(1).fingerprint());
}

TEST(Residual, IsThePositivePartOfPMinusQPerToken) {
  using Weights = std::vector<std::uint64_t>;
  const auto p = Distribution::exact(std::vector<Token>{1, 3, 4, 8}, Weights{10, 20, 30, total - 60});
  const auto q = Distribution::exact(std::vector<Token>{0, 3, 4, 9}, Weights{40, 25, 10, total - 75});
  const Residual rest(p, q);
  EXPECT_THAT(rest.tokens(), ElementsAre(1, 4, 8));
  EXPECT_THAT(rest.weights(), ElementsAre(10, 20, total - 60));
}

TEST(Residual, IsEmptyOnlyWhenPEqualsQ) {
  const auto p = Distribution::exact(std::vector<Token>{1, 3}, std::vector<std::uint64_t>{1, total - 1});
  EXPECT_THAT(Residual(p, p).tokens(), IsEmpty());
  const auto q = Distribution::exact(std::vector<Token>{1, 3}, std::vector<std::uint64_t>{2, total - 2});
  EXPECT_THAT(Residual(p, q).tokens(), ElementsAre(3));
  EXPECT_THAT(Residual(p, q).weights(), ElementsAre(1));
}

TEST(Residual, HasTheSameTotalInBothDirections) {
  Numbers numbers{2};
  for (int round = 0; round < 2000; ++round) {
    const auto random = [&] {
      std::vector<std::uint64_t> raw;
      for (int i = 0; i < 12; ++i) raw.push_back(numbers.next() % 3 == 0 ? 0 : random_raw_weight(numbers, 40));
      raw[numbers.next() % 12] = one;
      return quantized(raw);
    };
    const Distribution p = random();
    const Distribution q = random();
    EXPECT_EQ(sum(Residual(p, q).weights()), sum(Residual(q, p).weights()));
  }
}

TEST(DistributionDeathTest, BreachesOfTheContractAbort) {
  using Weights = std::vector<std::uint64_t>;
  const Weights two = {one, one};
  EXPECT_DEATH(Distribution::point(-1), "not negative");
  EXPECT_DEATH(quantized({}), "between 1 and 2\\^23");
  EXPECT_DEATH(quantized({one / 2, one / 4}), "at least 2\\^40");
  EXPECT_DEATH(quantized({one / 2, one / 2, one / 4}), "largest raw weight is 2\\^40");
  FixedPointWeights miscounted = in_blocks(two);
  miscounted.sum += one;
  EXPECT_DEATH(Distribution::quantized(miscounted), "rounding leaves");
  EXPECT_DEATH(Distribution::exact(std::vector<Token>{1}, two), "one token for each");
  EXPECT_DEATH(Distribution::exact(std::vector<Token>{1, 1}, two), "ascend");
  EXPECT_DEATH(Distribution::exact(std::vector<Token>{-1, 1}, two), "not negative");
  EXPECT_DEATH(Distribution::exact({}, two), "sum to its total");
}

}  // namespace
}  // namespace draftproof::distribution_test
