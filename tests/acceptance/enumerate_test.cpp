// SPDX-License-Identifier: MIT
#include "oracle/exact/enumerate.h"

#include <gtest/gtest.h>

#include <map>

namespace draftproof::enumerate_test {
namespace {

constexpr Key one = {0, 0, Purpose::target};
constexpr Key other = {0, 1, Purpose::target};

using Outcome = std::vector<std::size_t>;

template <class Program>
std::map<Outcome, Rational> compute_distribution(Program program) {
  std::map<Outcome, Rational> distribution;
  EnumeratedSource random;
  do {
    random.begin_path();
    const Outcome outcome = program(random);
    distribution[outcome] += random.probability();
  } while (random.next_path());
  return distribution;
}

TEST(EnumeratedSource, AProgramWithoutDrawsHasOnePathOfProbabilityOne) {
  const auto distribution = compute_distribution([](RandomSource&) { return Outcome{}; });
  EXPECT_EQ(distribution, (std::map<Outcome, Rational>{{{}, 1}}));
}

TEST(EnumeratedSource, OneDrawHasTheDistributionOfItsWeightsWithoutZeros) {
  const std::uint64_t weights[] = {0, 3, 0, 1, 2};
  const auto distribution =
      compute_distribution([&](RandomSource& random) { return Outcome{random.sample_index(one, weights)}; });
  EXPECT_EQ(distribution, (std::map<Outcome, Rational>{{{1}, {1, 2}}, {{3}, {1, 6}}, {{4}, {1, 3}}}));
}

TEST(EnumeratedSource, DifferentKeysAreIndependent) {
  const std::uint64_t a[] = {1, 2};
  const std::uint64_t b[] = {3, 1};
  const auto distribution = compute_distribution([&](RandomSource& random) {
    return Outcome{random.sample_index(one, a), random.sample_index(other, b)};
  });
  EXPECT_EQ(distribution,
            (std::map<Outcome, Rational>{{{0, 0}, {3, 12}}, {{0, 1}, {1, 12}}, {{1, 0}, {6, 12}}, {{1, 1}, {2, 12}}}));
}

TEST(EnumeratedSource, OneKeyIsOneUniformNumberForAnyNumberAndKindOfDraws) {
  const std::uint64_t thirds[] = {1, 1, 1};
  const std::uint64_t halves[] = {1, 1};
  const std::uint64_t coin[] = {1, 1};
  const auto distribution = compute_distribution([&](RandomSource& random) {
    const std::size_t third = random.sample_index(one, thirds);
    const std::size_t between = random.sample_index(other, coin);
    const std::size_t half = random.sample_index(one, halves);
    const std::size_t again = random.sample_index(one, thirds);
    return Outcome{third, half, again, between};
  });
  // [0, 1/3) is in the lower half, [2/3, 1) in the upper, [1/3, 2/3) is cut at 1/2.
  std::map<Outcome, Rational> expected;
  for (const std::size_t between : {0u, 1u}) {
    expected[{0, 0, 0, between}] = {1, 6};
    expected[{1, 0, 1, between}] = {1, 12};
    expected[{1, 1, 1, between}] = {1, 12};
    expected[{2, 1, 2, between}] = {1, 6};
  }
  EXPECT_EQ(distribution, expected);
}

TEST(EnumeratedSource, PathsMayHaveDifferentNumbersOfDraws) {
  const std::uint64_t coin[] = {1, 1};
  const auto distribution = compute_distribution([&](RandomSource& random) {
    Outcome outcome;
    for (std::int32_t position = 0; position < 4; ++position) {
      outcome.push_back(random.sample_index({0, position, Purpose::draft}, coin));
      if (outcome.back() == 1) break;
    }
    return outcome;
  });
  EXPECT_EQ(
      distribution,
      (std::map<Outcome, Rational>{
          {{1}, {1, 2}}, {{0, 1}, {1, 4}}, {{0, 0, 1}, {1, 8}}, {{0, 0, 0, 1}, {1, 16}}, {{0, 0, 0, 0}, {1, 16}}}));
}

TEST(EnumeratedSource, WeightsOfTheWholeTotalStayExact) {
  const std::uint64_t weights[] = {1, (std::uint64_t{1} << 52) - 1};
  const auto distribution =
      compute_distribution([&](RandomSource& random) { return Outcome{random.sample_index(one, weights)}; });
  EXPECT_EQ(distribution.at({0}), Rational(1, std::uint64_t{1} << 52));
  EXPECT_EQ(distribution.at({0}) + distribution.at({1}), 1);
}

TEST(EnumeratedSourceDeathTest, AProgramThatDoesNotRepeatItselfAborts) {
  const std::uint64_t coin[] = {1, 1};
  const std::uint64_t nothing[] = {0, 0};
  EnumeratedSource random;
  random.begin_path();
  random.sample_index(one, coin);
  random.sample_index(other, coin);
  ASSERT_TRUE(random.next_path());
  random.begin_path();
  EXPECT_DEATH(random.sample_index(other, coin), "same draws");
  random.sample_index(one, coin);
  EXPECT_DEATH(random.next_path(), "same draws");
  EXPECT_DEATH(random.sample_index(one, nothing), "some weight is positive");
}

}  // namespace
}  // namespace draftproof::enumerate_test
