// SPDX-License-Identifier: MIT
#include "ref/acceptance/distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/acceptance/numbers.h"

namespace draftproof {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t total = Distribution::total;
constexpr std::uint64_t one = Distribution::largest_share;

std::uint64_t sum(std::span<const std::uint64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

TEST(Distribution, APointHasAllTheWeight) {
  const Distribution point = Distribution::point(7);
  EXPECT_TRUE(point.is_point());
  EXPECT_EQ(point.weight(7), total);
  EXPECT_EQ(point.weight(6), 0u);
  EXPECT_EQ(point, Distribution::quantised(std::vector<Token>{7}, std::vector{one}));
}

TEST(Distribution, ExactKeepsItsWeightsAndLeavesOutZeros) {
  const Distribution p = Distribution::exact({}, std::vector<std::uint64_t>{0, total - 5, 0, 5});
  EXPECT_THAT(p.tokens(), ElementsAre(1, 3));
  EXPECT_THAT(p.weights(), ElementsAre(total - 5, 5));
}

TEST(Distribution, EqualSharesDifferOnlyByTheRemainderOfTheFirst) {
  const Distribution p = Distribution::quantised({}, std::vector<std::uint64_t>(3, one));
  EXPECT_THAT(p.weights(), ElementsAre(total / 3 + 1, total / 3, total / 3));
}

TEST(Distribution, TheRemainderGoesToTheLargestShare) {
  const Distribution p = Distribution::quantised(std::vector<Token>{2, 5, 9}, std::vector{one / 3, one, one / 7});
  const std::uint64_t all = one / 3 + one + one / 7;
  const auto floored = [&](std::uint64_t share) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(share) * total / all);
  };
  EXPECT_THAT(p.tokens(), ElementsAre(2, 5, 9));
  EXPECT_EQ(p.weight(2), floored(one / 3));
  EXPECT_EQ(p.weight(9), floored(one / 7));
  EXPECT_EQ(p.weight(5), total - floored(one / 3) - floored(one / 7));
}

TEST(Distribution, SharesTooSmallForAUnitHaveNoWeight) {
  std::vector<std::uint64_t> shares(5000, one);
  shares[17] = 1;
  shares[18] = 0;
  const Distribution p = Distribution::quantised({}, shares);
  EXPECT_EQ(p.weight(17), 0u);
  EXPECT_EQ(p.weight(18), 0u);
  EXPECT_EQ(p.tokens().size(), 4998u);
  EXPECT_EQ(sum(p.weights()), total);
}

TEST(Distribution, RoundingLeavesNeverLessThanNothingAndLessThanOneUnitPerShareAndABit) {
  // The bounds derived in distribution.cpp, on shares of every size down to single units.
  Numbers numbers{1};
  for (int round = 0; round < 3000; ++round) {
    const std::size_t count = round % 100 == 0 ? 20000 : 1 + numbers.next() % 40;
    std::vector<std::uint64_t> shares;
    for (std::size_t i = 0; i < count; ++i) shares.push_back(numbers.next() >> (24 + numbers.next() % 40));
    shares[numbers.next() % count] = one;
    const std::uint64_t all = sum(shares);
    const std::uint64_t reciprocal = static_cast<std::uint64_t>((static_cast<unsigned __int128>(1) << 103) / all);

    const Distribution p = Distribution::quantised({}, shares);
    ASSERT_EQ(sum(p.weights()), total);
    const auto largest = static_cast<Token>(std::max_element(shares.begin(), shares.end()) - shares.begin());
    for (std::size_t i = 0; i < count; ++i) {
      const auto token = static_cast<Token>(i);
      const auto documented = static_cast<std::uint64_t>(static_cast<unsigned __int128>(shares[i]) * reciprocal >> 51);
      if (token == largest) {
        ASSERT_GE(p.weight(token), documented);
        ASSERT_LE(p.weight(token) - documented, count + count / 2048);
      } else {
        ASSERT_EQ(p.weight(token), documented);
      }
    }
  }
}

TEST(Distribution, TheLargestNumberOfSharesFits) {
  const Distribution p = Distribution::quantised({}, std::vector<std::uint64_t>(std::size_t{1} << 23, one));
  EXPECT_EQ(p.weight(0), total >> 23);
  EXPECT_EQ(p.weight((1 << 23) - 1), total >> 23);
}

TEST(Distribution, FingerprintsTellTokensAndWeightsApart) {
  const auto exact = [](std::vector<Token> tokens, std::vector<std::uint64_t> weights) {
    return Distribution::exact(tokens, weights);
  };
  const Distribution p = exact({1, 2}, {5, total - 5});
  EXPECT_EQ(p.fingerprint(), exact({1, 2}, {5, total - 5}).fingerprint());
  EXPECT_NE(p.fingerprint(), exact({1, 3}, {5, total - 5}).fingerprint());
  EXPECT_NE(p.fingerprint(), exact({1, 2}, {6, total - 6}).fingerprint());
  EXPECT_NE(p.fingerprint(), Distribution::point(1).fingerprint());
}

TEST(Residual, IsWhatPHasMorePerToken) {
  using Weights = std::vector<std::uint64_t>;
  const auto p = Distribution::exact(std::vector<Token>{1, 3, 4, 8}, Weights{10, 20, 30, total - 60});
  const auto q = Distribution::exact(std::vector<Token>{0, 3, 4, 9}, Weights{40, 25, 10, total - 75});
  const Residual rest = residual(p, q);
  EXPECT_THAT(rest.tokens, ElementsAre(1, 4, 8));
  EXPECT_THAT(rest.weights, ElementsAre(10, 20, total - 60));
}

TEST(Residual, IsEmptyOnlyWhenThereIsNoDifference) {
  const auto p = Distribution::exact(std::vector<Token>{1, 3}, std::vector<std::uint64_t>{1, total - 1});
  EXPECT_THAT(residual(p, p).tokens, IsEmpty());
  const auto q = Distribution::exact(std::vector<Token>{1, 3}, std::vector<std::uint64_t>{2, total - 2});
  EXPECT_THAT(residual(p, q).tokens, ElementsAre(3));
  EXPECT_THAT(residual(p, q).weights, ElementsAre(1));
}

TEST(Residual, WeighsAsMuchInBothDirections) {
  Numbers numbers{2};
  for (int round = 0; round < 2000; ++round) {
    const auto random = [&] {
      std::vector<std::uint64_t> shares;
      for (int i = 0; i < 12; ++i) shares.push_back(numbers.next() % 3 == 0 ? 0 : numbers.next() >> 25);
      shares[numbers.next() % 12] = one;
      return Distribution::quantised({}, shares);
    };
    const Distribution p = random();
    const Distribution q = random();
    EXPECT_EQ(sum(residual(p, q).weights), sum(residual(q, p).weights));
  }
}

TEST(DistributionDeathTest, BreachesOfTheContractAbort) {
  const std::vector<std::uint64_t> two = {one, one};
  EXPECT_DEATH(Distribution::point(-1), "not negative");
  EXPECT_DEATH(Distribution::quantised({}, {}), "between 1 and 2\\^23");
  EXPECT_DEATH(Distribution::quantised({}, std::vector<std::uint64_t>{one + 1}), "at most 2\\^40");
  EXPECT_DEATH(Distribution::quantised({}, std::vector<std::uint64_t>{one - 1}), "at least 2\\^40");
  EXPECT_DEATH(Distribution::quantised(std::vector<Token>{1}, two), "one token for each");
  EXPECT_DEATH(Distribution::quantised(std::vector<Token>{1, 1}, two), "ascend");
  EXPECT_DEATH(Distribution::quantised(std::vector<Token>{-1, 1}, two), "not negative");
  EXPECT_DEATH(Distribution::exact({}, two), "sum to its total");
}

}  // namespace
}  // namespace draftproof
