// SPDX-License-Identifier: MIT
#include "oracle/sequential/rounded_distribution.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/oracle/float_engine.h"

namespace draftproof::rounded_distribution_test {
namespace {

constexpr double float32 = 0x1p-23;

/// Returns the sums at which each token's interval ends.
std::vector<double> ends_of(const std::vector<float>& row) {
  std::vector<double> ends;
  float sum = 0;
  for (const float p : row) ends.push_back(sum += p);
  return ends;
}

/// Returns how far the distribution of tokens selected by these sums, with 2^bits equally likely coins, is from the
/// row.
double distance(const RoundedDistribution& distribution, const std::vector<float>& row, const std::vector<double>& ends,
                int bits) {
  const double coins = std::ldexp(1, bits);
  double lost = 0;
  double before = 0;
  for (std::size_t token = 0; token < row.size(); ++token) {
    const double below = std::min(std::ceil(ends[token] * coins), coins);
    const double here = (below - before) / coins;
    const double wanted = static_cast<double>(distribution.distribution.weight(static_cast<Token>(token))) * 0x1p-52;
    lost += std::max(wanted - here, 0.0);  // the remainder of the last token, a gain, is not counted
    before = below;
  }
  return lost;
}

TEST(RoundedDistribution, AFloatEngineLiesWithinTheSlack) {
  Bits bits(1);
  for (int vocabulary = 8; vocabulary <= 4096; vocabulary *= 2) {
    for (const double deviation : {0.1, 1.0, 3.0, 8.0}) {
      for (int row_index = 0; row_index < 10; ++row_index) {
        const std::vector<float> row = row_of(vocabulary, deviation, bits);
        const auto [tokens, weights] = stated(row);
        const RoundedDistribution distribution = rounded_distribution(tokens, weights, float32);
        for (const int of_coins : {23, 24, 32}) {
          EXPECT_LE(distance(distribution, row, ends_of(row), of_coins), distribution.slack)
              << vocabulary << ", " << deviation;
        }
        EXPECT_LE(distribution.slack, vocabulary * 5 * float32);
      }
    }
  }
}

TEST(RoundedDistribution, TheSameTestFindsSumsOfHalfPrecision) {
  Bits bits(1);
  for (const double deviation : {0.1, 1.0, 3.0}) {
    const std::vector<float> row = row_of(256, deviation, bits);
    const auto [tokens, weights] = stated(row);
    std::vector<double> ends;
    double sum = 0;
    for (const float p : row) ends.push_back(sum = std::nearbyint((sum + p) * 0x1p11) * 0x1p-11);
    EXPECT_GT(distance(rounded_distribution(tokens, weights, float32), row, ends, 24),
              rounded_distribution(tokens, weights, float32).slack);
    EXPECT_LE(distance(rounded_distribution(tokens, weights, 0x1p-10), row, ends, 24),
              rounded_distribution(tokens, weights, 0x1p-10).slack)
        << "for which it is right";
  }
}

TEST(RoundedDistribution, SlackIsSmallForARowOfALanguageModel) {
  constexpr int vocabulary = 150000;
  Bits bits(1);
  std::vector<float> logits;
  for (int token = 0; token < vocabulary; ++token) logits.push_back(static_cast<float>(2.5 * bell(bits)));
  for (std::size_t suggested = 0; suggested < 200; ++suggested) logits[suggested * 700] += 8;  // by the text
  const std::vector<float> row = softmax(logits);
  const auto [tokens, weights] = stated(row);
  const RoundedDistribution distribution = rounded_distribution(tokens, weights, float32);
  const double found = distance(distribution, row, ends_of(row), 24);
  fmt::print("150 000 tokens: slack {:.4f}, the walk is off by {:.4f}\n", distribution.slack, found);
  EXPECT_LE(found, distribution.slack);
  EXPECT_LT(distribution.slack, 0.03);

  // What top-k leaves of the row.
  std::vector<float> cut = row;
  std::nth_element(cut.begin(), cut.begin() + 50, cut.end(), std::greater<>());
  const float min = cut[50];
  cut = row;
  float sum = 0;
  for (float& p : cut) sum += p = p > min ? p : 0;
  for (float& p : cut) p /= sum;
  const auto left = stated(cut);
  EXPECT_LT(rounded_distribution(left.tokens, left.weights, float32).slack, 50 * 0x1p-20);
}

TEST(RoundedDistribution, EveryTokenKeepsAWeightAndTheMostLikelyTheRemainder) {
  const std::vector<Token> tokens = {2, 5, 9};
  const RoundedDistribution distribution =
      rounded_distribution(tokens, std::vector<double>{1e-300, 0.75, 0.25}, float32);
  EXPECT_EQ(distribution.distribution.weight(2), 1u);
  EXPECT_EQ(distribution.distribution.weight(5), 3 * (Distribution::total / 4) - 1);
  EXPECT_EQ(distribution.distribution.weight(9), Distribution::total / 4);
  EXPECT_NEAR(distribution.slack, 9 * float32, 0x1p-30);
}

TEST(RoundedDistribution, ASumThatIsNotOneIsSlack) {
  const std::vector<Token> tokens = {0, 1};
  const RoundedDistribution distribution = rounded_distribution(tokens, std::vector<double>{0.5, 0.4}, float32);
  EXPECT_NEAR(distribution.slack, 0.1, 1e-4);
  EXPECT_NEAR(static_cast<double>(distribution.distribution.weight(0)) * 0x1p-52, 5. / 9, 1e-12);
  EXPECT_EQ(rounded_distribution(tokens, std::vector<double>{5, 5}, float32).slack, 1);
}

TEST(RoundedDistribution, AOneTokenRowIsAPoint) {
  const std::vector<Token> tokens = {7};
  EXPECT_EQ(rounded_distribution(tokens, std::vector<double>{1}, float32).distribution, Distribution::point(7));
}

}  // namespace
}  // namespace draftproof::rounded_distribution_test
