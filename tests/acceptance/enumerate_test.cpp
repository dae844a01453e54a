// SPDX-License-Identifier: MIT
#include "oracle/enumerate.h"

#include <gtest/gtest.h>

#include <map>

namespace draftproof {
namespace {

constexpr Key one = {0, 0, Purpose::target};
constexpr Key other = {0, 1, Purpose::target};

using Outcome = std::vector<std::size_t>;

template <class Program>
std::map<Outcome, Rational> law_of(Program program) {
  std::map<Outcome, Rational> law;
  EnumeratedChance chance;
  do {
    chance.begin_path();
    const Outcome outcome = program(chance);
    law[outcome] += chance.probability();
  } while (chance.next_path());
  return law;
}

TEST(EnumeratedChance, AProgramThatAsksNothingHasOnePathOfProbabilityOne) {
  const auto law = law_of([](Chance&) { return Outcome{}; });
  EXPECT_EQ(law, (std::map<Outcome, Rational>{{{}, 1}}));
}

TEST(EnumeratedChance, OneQuestionHasTheLawOfItsWeightsAndLeavesOutTheZeros) {
  const std::uint64_t weights[] = {0, 3, 0, 1, 2};
  const auto law = law_of([&](Chance& chance) { return Outcome{chance.pick(one, weights)}; });
  EXPECT_EQ(law, (std::map<Outcome, Rational>{{{1}, {1, 2}}, {{3}, {1, 6}}, {{4}, {1, 3}}}));
}

TEST(EnumeratedChance, DifferentKeysAreIndependent) {
  const std::uint64_t a[] = {1, 2};
  const std::uint64_t b[] = {3, 1};
  const auto law = law_of([&](Chance& chance) { return Outcome{chance.pick(one, a), chance.pick(other, b)}; });
  EXPECT_EQ(law, (std::map<Outcome, Rational>{
                     {{0, 0}, {3, 12}}, {{0, 1}, {1, 12}}, {{1, 0}, {6, 12}}, {{1, 1}, {2, 12}}}));
}

TEST(EnumeratedChance, OneKeyIsOneNumberHoweverOftenAndHoweverDifferentlyItIsAsked) {
  const std::uint64_t thirds[] = {1, 1, 1};
  const std::uint64_t halves[] = {1, 1};
  const std::uint64_t coin[] = {1, 1};
  const auto law = law_of([&](Chance& chance) {
    const std::size_t third = chance.pick(one, thirds);
    const std::size_t between = chance.pick(other, coin);
    const std::size_t half = chance.pick(one, halves);
    const std::size_t again = chance.pick(one, thirds);
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
  EXPECT_EQ(law, expected);
}

TEST(EnumeratedChance, PathsMayAskDifferentNumbersOfQuestions) {
  const std::uint64_t coin[] = {1, 1};
  const auto law = law_of([&](Chance& chance) {
    Outcome outcome;
    for (std::int32_t position = 0; position < 4; ++position) {
      outcome.push_back(chance.pick({0, position, Purpose::draft}, coin));
      if (outcome.back() == 1) break;
    }
    return outcome;
  });
  EXPECT_EQ(law, (std::map<Outcome, Rational>{{{1}, {1, 2}},
                                              {{0, 1}, {1, 4}},
                                              {{0, 0, 1}, {1, 8}},
                                              {{0, 0, 0, 1}, {1, 16}},
                                              {{0, 0, 0, 0}, {1, 16}}}));
}

TEST(EnumeratedChance, WeightsOfTheWholeTotalStayExact) {
  const std::uint64_t weights[] = {1, (std::uint64_t{1} << 52) - 1};
  const auto law = law_of([&](Chance& chance) { return Outcome{chance.pick(one, weights)}; });
  EXPECT_EQ(law.at({0}), Rational(1, std::uint64_t{1} << 52));
  EXPECT_EQ(law.at({0}) + law.at({1}), 1);
}

TEST(EnumeratedChanceDeathTest, AProgramThatDoesNotRepeatItselfAborts) {
  const std::uint64_t coin[] = {1, 1};
  const std::uint64_t nothing[] = {0, 0};
  EnumeratedChance chance;
  chance.begin_path();
  chance.pick(one, coin);
  chance.pick(other, coin);
  ASSERT_TRUE(chance.next_path());
  chance.begin_path();
  EXPECT_DEATH(chance.pick(other, coin), "same questions");
  chance.pick(one, coin);
  EXPECT_DEATH(chance.next_path(), "same questions");
  EXPECT_DEATH(chance.pick(one, nothing), "some weight is positive");
}

}  // namespace
}  // namespace draftproof
