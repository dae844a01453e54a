// SPDX-License-Identifier: MIT
#include "oracle/sequential/paired_texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/math64.h"

namespace draftproof::paired_texts_test {
namespace {

/// Draws texts of a Markov chain whose rows have a temperature.
class Chain {
 public:
  Chain(double temperature, std::uint64_t seed) : temperature_(temperature), random_(seed) {}

  struct Text {
    std::vector<Token> units;
    std::vector<double> logprobs;  // at temperature 1
    SampledText sampled(bool with_logprobs) const {
      return {units, with_logprobs ? std::span<const double>(logprobs) : std::span<const double>()};
    }
  };

  Text draw(std::int64_t request, int length) {
    Text text;
    Token last = static_cast<Token>(request % vocabulary);
    for (int i = 0; i < length; ++i) {
      std::vector<double> weights;
      double sum = 0;
      for (Token next = 0; next < vocabulary; ++next) {
        weights.push_back(exp64(logit(last, next) / temperature_));
        sum += exp64(logit(last, next));
      }
      std::discrete_distribution<Token> row(weights.begin(), weights.end());
      const Token next = row(random_);
      text.logprobs.push_back(logit(last, next) - log64(sum));
      text.units.push_back(next);
      last = next;
    }
    return text;
  }

 private:
  static constexpr Token vocabulary = 40;
  static double logit(Token last, Token next) {
    const auto hash = static_cast<std::uint32_t>(last * 7919 + next * 104729 + 12345) * 2654435761u;
    return static_cast<double>(hash >> 16) / 65536 * 5;
  }

  double temperature_;
  std::mt19937_64 random_;
};

/// Returns the test after so many pairs of texts of 16 units, or the alarm.
PairedTexts compared(double temperature, int pairs, bool with_logprobs, std::uint64_t seed, double alpha = 1e-9) {
  Chain plain(1, seed);
  Chain other(temperature, seed + 1'000'000);
  PairedTexts test(alpha);
  for (int i = 0; i < pairs && !test.alarm(); ++i) {
    const std::int64_t request = i % 12;
    test.observe(request, plain.draw(request, 16).sampled(with_logprobs),
                 other.draw(request, 16).sampled(with_logprobs));
  }
  return test;
}

TEST(PairedTexts, EqualTextsAreNoEvidence) {
  PairedTexts test;
  const std::vector<Token> text = {1, 2, 3};
  for (int i = 0; i < 1000; ++i) test.observe(i, {text}, {text});
  EXPECT_EQ(test.e_value(), 1);
  EXPECT_EQ(test.unequal(), 0);
  EXPECT_EQ(test.share_seen(), 1);
}

TEST(PairedTexts, TextsOfOneDistributionRaiseNoAlarm) {
  const PairedTexts test = compared(1, 2000, true, 1);
  EXPECT_FALSE(test.alarm()) << test.e_value();
  EXPECT_LT(test.share_seen(), 0.6);
}

TEST(PairedTexts, AnotherTemperatureIsFoundWithAndWithoutLogprobsAndNamed) {
  const PairedTexts with = compared(0.8, 3000, true, 2);
  EXPECT_TRUE(with.alarm()) << with.e_value();
  const PairedTexts without = compared(0.8, 6000, false, 2);
  EXPECT_TRUE(without.alarm()) << without.e_value();
  EXPECT_LT(with.pairs(), without.pairs());
}

TEST(PairedTexts, ASingleUnitThatOneEngineNeverWritesIsFound) {
  Chain plain(1, 5);
  Chain other(1, 6);
  PairedTexts test;
  for (int i = 0; i < 3000 && !test.alarm(); ++i) {
    Chain::Text text = other.draw(i % 12, 16);
    for (Token& unit : text.units) {
      if (unit == 17) unit = 18;
    }
    test.observe(i % 12, plain.draw(i % 12, 16).sampled(false), text.sampled(false));
  }
  EXPECT_TRUE(test.alarm()) << test.e_value();
  EXPECT_EQ(test.suspect(), "how often a unit is written");
}

TEST(PairedTexts, TextsThatEndEarlyAreFound) {
  Chain plain(1, 7);
  Chain other(1, 8);
  PairedTexts test;
  for (int i = 0; i < 2000 && !test.alarm(); ++i) {
    Chain::Text text = other.draw(i % 12, 16);
    if (i % 3 == 0) text.units.resize(9);
    test.observe(i % 12, plain.draw(i % 12, 16).sampled(false), text.sampled(false));
  }
  EXPECT_TRUE(test.alarm()) << test.e_value();
}

TEST(PairedTexts, UnitsOfThePromptThatAreAvoidedAreFoundSoonerWhereThePromptIsKnown) {
  const auto compare = [](bool avoided, bool known) {
    PairedTexts test;
    std::mt19937_64 random(9);
    for (int i = 0; i < 4000 && !test.alarm(); ++i) {
      std::vector<Token> prompt;
      for (int j = 0; j < 8; ++j) prompt.push_back(static_cast<Token>(random() % 40));
      const auto draw = [&](bool avoid) {
        std::vector<Token> text;
        while (text.size() < 8) {
          const auto unit = static_cast<Token>(random() % 40);
          if (avoid && random() % 3 == 0 && std::ranges::find(prompt, unit) != prompt.end()) continue;
          text.push_back(unit);
        }
        return text;
      };
      const std::vector<Token> first = draw(false);
      const std::vector<Token> second = draw(avoided);
      test.observe(i, {first}, {second}, known ? std::span<const Token>(prompt) : std::span<const Token>());
    }
    return test;
  };
  const PairedTexts known = compare(true, true);
  EXPECT_TRUE(known.alarm()) << known.e_value();
  EXPECT_EQ(known.suspect(), "how often a unit is written again");
  EXPECT_FALSE(compare(true, false).alarm());
  EXPECT_FALSE(compare(false, true).alarm());
}

TEST(PairedTexts, TwoWeakFaultsTogetherAreFoundByTheBetOnAllViews) {
  std::mt19937_64 random(1);
  PairedTexts test;
  for (int i = 0; i < 4000 && !test.alarm(); ++i) {
    const auto draw = [&](bool wrong) {
      std::vector<Token> text;
      const std::size_t length = wrong && random() % 8 == 0 ? 8 : 8 + random() % 4;
      while (text.size() < length) {
        const auto unit = static_cast<Token>(random() % 40);
        if (!wrong || unit >= 6 || random() % 4 != 0) text.push_back(unit);
      }
      return text;
    };
    const std::vector<Token> first = draw(false);
    const std::vector<Token> second = draw(true);
    test.observe(i, {first}, {second});
  }
  EXPECT_TRUE(test.alarm()) << test.e_value();
  EXPECT_EQ(test.suspect(), "several of these together");
}

/// How many of `count` null comparisons have an e-value of 20 or more; none may alarm.
int null_comparisons_at_0_05(int count) {
  int at_0_05 = 0;
  for (int i = 0; i < count; ++i) {
    const PairedTexts test = compared(1, 120, i % 2 == 0, 100 + static_cast<std::uint64_t>(i));
    EXPECT_FALSE(test.alarm()) << i;
    if (test.e_value() >= 20) ++at_0_05;
  }
  std::printf("e-value of 20 or more in %d of %d null comparisons\n", at_0_05, count);
  return at_0_05;
}

TEST(PairedTextsSlow, TwoHundredNullComparisonsAlarmNoMoreOftenThanTheyMay) {
  EXPECT_LE(null_comparisons_at_0_05(200), 20) << "10 are expected at most, and 21 happen with probability 0.0012";
}
TEST(PairedTextsSweep, AThousandNullComparisonsAlarmNoMoreOftenThanTheyMay) {
  EXPECT_LE(null_comparisons_at_0_05(1000), 71) << "50 are expected at most, and 72 happen with probability 0.001";
}

}  // namespace
}  // namespace draftproof::paired_texts_test
