// SPDX-License-Identifier: MIT
#include "ref/drafts/most_probable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ref/acceptance/sampler.h"
#include "ref/base/error.h"

namespace draftproof::most_probable_test {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();
constexpr float letters[] = {never, -2, 0, 3.5F};
constexpr int width = 5;

std::vector<float> row_of(int number) {
  std::vector<float> row;
  for (int i = 0; i < width; ++i, number /= 4) row.push_back(letters[number % 4]);
  return row;
}
constexpr int rows = 4 * 4 * 4 * 4 * 4;

TEST(MostProbable, AreThoseOfAStableSortInEveryRowOfFourLetters) {
  for (int number = 0; number < rows; ++number) {
    const std::vector<float> row = row_of(number);
    std::vector<Token> sorted;
    for (Token token = 0; token < width; ++token) {
      if (row[static_cast<std::size_t>(token)] != never) sorted.push_back(token);
    }
    std::ranges::stable_sort(
        sorted, [&](Token a, Token b) { return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)]; });
    for (int count = 0; count <= width + 1; ++count) {
      const auto kept = std::min<std::size_t>(static_cast<std::size_t>(count), sorted.size());
      ASSERT_EQ(most_probable(row, count), std::vector<Token>(sorted.begin(), sorted.begin() + std::ptrdiff_t(kept)));
    }
  }
}

TEST(MostProbable, HaveTheProbabilitiesOfTheRowAtTemperatureOneAndNoneOfZero) {
  Sampler sampler;
  for (int number = 1; number < rows; ++number) {
    std::vector<float> row = row_of(number);
    row.push_back(-100);  // its integer is 0 unless it is alone
    const Distribution distribution = compute_distribution(row, {.temperature = 1}, {});
    double sum = 0;
    double before = 1;
    const std::vector<ProbableToken> all = most_probable(row, width + 1, sampler);
    EXPECT_EQ(all.size(), distribution.tokens().size());
    for (const ProbableToken& one : all) {
      EXPECT_EQ(one.probability * static_cast<double>(Distribution::total),
                static_cast<double>(distribution.weight(one.token)));
      EXPECT_LE(one.probability, before);
      before = one.probability;
      sum += one.probability;
    }
    EXPECT_EQ(sum, 1);
  }
  const std::vector<float> nothing(width, never);
  EXPECT_THROW(most_probable(nothing, 1, sampler), Error);
}

TEST(MinProbability, StopsBeforeARowWhoseMostProbableTokenIsLessProbable) {
  const std::vector<float> even(4, 1.5F);
  const std::vector<float> certain = {0, 60, 0, 0};
  EXPECT_FALSE(MinProbability().stops_before(even));
  EXPECT_FALSE(MinProbability(0).stops_before(even));
  EXPECT_FALSE(MinProbability(0.25).stops_before(even)) << "1/4 is not less than that";
  EXPECT_TRUE(MinProbability(0.2501).stops_before(even));
  EXPECT_TRUE(MinProbability(1).stops_before(even));
  EXPECT_FALSE(MinProbability(1).stops_before(certain));
}

}  // namespace
}  // namespace draftproof::most_probable_test
