// SPDX-License-Identifier: MIT
#include "ref/acceptance/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "kernels/exp.h"
#include "ref/acceptance/ranked_sampler.h"
#include "ref/base/error.h"
#include "tests/acceptance/naive.h"
#include "tests/acceptance/numbers.h"
#include "tests/threads.h"

namespace draftproof::sampler_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float largest = std::numeric_limits<float>::max();
constexpr float denormal = std::numeric_limits<float>::denorm_min();

using Row = std::vector<float>;
using Tokens = std::vector<Token>;

Distribution sampled(const Row& logits, const Sampling& sampling) { return compute_distribution(logits, sampling, {}); }

/// Few different values, so that ties occur at every boundary; sometimes -infinity, both zeros and denormals.
Row tied_row(Numbers& numbers, std::size_t size) {
  Row row;
  for (std::size_t i = 0; i < size; ++i)
    row.push_back(numbers.one_of({0.0f, -0.0f, 1.0f, 1.0f, 2.5f, -1.0f, -3.0f, -0.25f, -infinity, denormal, -40.0f}));
  row[numbers.next() % size] = 1;  // at least one finite logit
  return row;
}

Sampling random_sampling(Numbers& numbers) {
  return {.temperature = numbers.one_of({0.0f, -1.0f, 0.01f, 0.7f, 1.0f, 3.0f, 1e30f, 1e-30f}),
          .top_k = numbers.one_of({0, 0, -3, 1, 2, 3, 5, 40, 100000}),
          .top_p = numbers.one_of({1.0f, 0.0f, 2.0f, 0.9f, 0.5f, 0.1f, 1e-30f, 0.99999994f}),
          .min_p = numbers.one_of({0.0f, 0.0f, -1.0f, 2.0f, 0.05f, 0.5f, 1.0f}),
          .repeat_penalty = numbers.one_of({1.0f, 1.0f, 0.0f, -2.0f, 1.3f, 0.5f}),
          .presence_penalty = numbers.one_of({0.0f, 0.0f, 0.4f, -0.4f}),
          .frequency_penalty = numbers.one_of({0.0f, 0.0f, 0.3f, -0.2f}),
          .repeat_last_n = numbers.one_of({-1, 0, 1, 2, 3, 5, 64})};
}

/// With the other samplers on now and then, in any order.
Sampling any_sampling(Numbers& numbers) {
  Sampling s = random_sampling(numbers);
  s.top_n_sigma = numbers.one_of({0.0f, 0.0f, -1.0f, 0.5f, 1.0f, 2.0f});
  s.typical_p = numbers.one_of({1.0f, 1.0f, 0.0f, 2.0f, 0.1f, 0.5f, 0.95f});
  s.dynatemp_range = numbers.one_of({0.0f, 0.0f, -1.0f, 0.3f, 1.0f, 5.0f});
  s.dynatemp_exponent = numbers.one_of({1.0f, 0.0f, 0.5f, 3.0f});
  s.xtc_probability = numbers.one_of({0.0f, 0.0f, -1.0f, 0.3f, 0.5f, 1.0f, 2.0f});
  s.xtc_threshold = numbers.one_of({0.1f, 0.0f, 0.05f, 0.3f, 0.5f, 0.6f});
  s.dry_multiplier = numbers.one_of({0.0f, 0.0f, 0.8f, 3.0f, -1.0f});
  s.dry_base = numbers.one_of({1.75f, 1.0f, 0.5f, 4.0f});
  s.dry_allowed_length = numbers.one_of({2, 0, 1, 3, -1});
  s.dry_penalty_last_n = numbers.one_of({-1, 0, 2, 5, 64});
  for (Token token = 0; token < 3; ++token) {
    if (numbers.next() % 4 == 0) s.dry_breakers.push_back(token);
  }
  s.order = numbers.one_of({transformers_order, llama_cpp_order});
  if (numbers.next() % 2 == 0) {
    for (std::size_t i = 1; i < s.order.size(); ++i) std::swap(s.order[i], s.order[numbers.next() % (i + 1)]);
  }
  return s;
}

TEST(Sampling, BiasesAndConstraintChangeTheRowBeforeEverythingElse) {
  Numbers numbers{7};
  for (int round = 0; round < 5000; ++round) {
    const Row row = tied_row(numbers, 2 + numbers.next() % 140);
    const Tokens history = {static_cast<Token>(numbers.next() % row.size()), 0};
    Sampling sampling = random_sampling(numbers);
    Row changed = row;
    TokenSet allowed(static_cast<int>(row.size()));
    Sampling biased = sampling;
    for (int i = 0; i < 3; ++i) {
      const LogitBias bias = {static_cast<Token>(numbers.next() % (row.size() + 2)), numbers.one_of({-100.0f, 1.0f})};
      biased.logit_bias.push_back(bias);
      if (static_cast<std::size_t>(bias.token) < row.size()) changed[bias.token] += bias.bias;
    }
    for (std::size_t token = 0; token < row.size(); ++token) {
      if (numbers.next() % 3 == 0) changed[token] = -infinity;
      else allowed.add(static_cast<Token>(token));
    }
    const auto read = [](const auto& reading) {
      try {
        return reading().fingerprint().hex();
      } catch (const Error&) {
        return std::string("an error");
      }
    };
    EXPECT_EQ(read([&] {
                return compute_distribution(row, biased, {history, {}}, &allowed);
              }),
              read([&] {
                return compute_distribution(changed, sampling, {history, {}});
              }));
  }
}

TEST(Sampling, AConstraintHidesNoUnusableLogitAndAnEmptyOneIsAnError) {
  TokenSet allowed(3);
  allowed.add(1);
  EXPECT_THROW(compute_distribution(Row{nan, 1, 2}, {}, {}, &allowed), Error);
  EXPECT_THROW(compute_distribution(Row{0, 1, infinity}, {}, {}, &allowed), Error);
  EXPECT_THROW(compute_distribution(Row{0, -infinity, 1}, {}, {}, &allowed), Error);
  EXPECT_EQ(compute_distribution(Row{0, -5, 1}, {}, {}, &allowed).fingerprint(), Distribution::point(1).fingerprint());
}

TEST(TokenSet, KnowsItsOnlyToken) {
  for (const Token token : {0, 1, 63, 64, 127, 128, 199}) {
    TokenSet set(200);
    EXPECT_EQ(set.only(), std::nullopt);
    EXPECT_TRUE(set.empty());
    set.add(token);
    EXPECT_EQ(set.only(), token);
    EXPECT_FALSE(set.empty());
    set.add((token + 1) % 200);
    EXPECT_EQ(set.only(), std::nullopt);
    EXPECT_TRUE(set.has(token));
    EXPECT_FALSE(set.has((token + 2) % 200));
  }
  EXPECT_FALSE(TokenSet(10).has(-1));
  EXPECT_FALSE(TokenSet(10).has(1000));
}

TEST(Sampling, EqualsANaiveImplementationOfItsDocumentation) {
  Numbers numbers{1};
  for (int round = 0; round < 20000; ++round) {
    const Row row = tied_row(numbers, 1 + numbers.next() % 12);
    const Sampling sampling = random_sampling(numbers);
    Tokens history;
    for (std::uint64_t left = numbers.next() % 10; left > 0; --left)
      history.push_back(static_cast<Token>(numbers.next() % (row.size() + 1)));  // may be beyond the row
    const std::size_t split = numbers.next() % (history.size() + 1);
    const History halves = {std::span(history).first(split), std::span(history).subspan(split)};
    const Distribution p = compute_distribution(row, sampling, halves);
    ASSERT_EQ(p, naive_distribution(row, sampling, history)) << "round " << round;
    const std::vector<std::uint64_t> weights = p.weights();
    ASSERT_EQ(std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}), Distribution::total);
  }
}

TEST(Sampling, OfAllSamplersInAnyOrderEqualsTheNaiveImplementation) {
  Numbers numbers{31};
  Sampler sampler;
  Distribution p;
  for (int round = 0; round < 60000; ++round) {
    const Row row = tied_row(numbers, 1 + numbers.next() % 12);
    const Sampling sampling = any_sampling(numbers);
    Tokens history;
    for (std::uint64_t left = numbers.next() % 24; left > 0; --left)
      history.push_back(static_cast<Token>(numbers.next() % std::min<std::size_t>(4, row.size() + 1)));
    const std::size_t split = numbers.next() % (history.size() + 1);
    sampler.read(row, sampling, {std::span(history).first(split), std::span(history).subspan(split)}, p);
    ASSERT_EQ(p, naive_distribution(row, sampling, history)) << "round " << round;
  }
}

/// Rows of the shapes that decide which tokens are examined: token blocks of raw weight 0, ties within and across token
/// blocks, neighboring floats, a few huge logits, values that differ in bits of one size only.
Row shaped_row(Numbers& numbers, std::size_t size) {
  const auto uniform = [&] { return static_cast<float>(numbers.next() >> 40) * 0x1p-24f; };
  const std::uint64_t shape = numbers.next() % 9;
  Row row;
  for (std::size_t i = 0; i < size; ++i) {
    const float u = uniform();
    switch (shape) {
      case 0: row.push_back(u); break;                                       // flat
      case 1: row.push_back(8 * (u + uniform() + uniform() - 1.5f)); break;  // a bell
      case 2: row.push_back(u < 0.01f ? 30 * uniform() : -40 * u); break;    // a heavy tail
      case 3: row.push_back(numbers.next() % size < 3 ? 60.0f : u); break;   // one, or few, far above
      case 4: row.push_back(u < 0.7f ? -infinity : u); break;
      case 5: row.push_back(0.25f); break;  // all equal
      case 6:
        row.push_back(__builtin_bit_cast(float, 0x40000000u + static_cast<std::uint32_t>(numbers.next() % 5)));
        break;  // neighbors
      case 7:
        row.push_back(__builtin_bit_cast(float, static_cast<std::uint32_t>(numbers.next() % 0x41000000u)) - 1);
        break;                                                // every exponent
      default: row.push_back(std::floor(u * 16) - 8); break;  // tied
    }
  }
  row[numbers.next() % size] = 1;  // at least one finite logit
  return row;
}

TEST(Sampling, EqualsTheNaiveImplementationOnLongRowsWhateverTheSamplerReadBefore) {
  Numbers numbers{2};
  Sampler sampler;
  Distribution p;
  for (int round = 0; round < 1500; ++round) {
    const std::size_t size = numbers.one_of<std::size_t>({1, 63, 64, 65, 128, 320, 321, 2000, 6000});
    const Row row = round % 4 == 0 ? tied_row(numbers, size) : shaped_row(numbers, size);
    Sampling sampling = random_sampling(numbers);
    sampling.temperature = numbers.one_of({0.05f, 0.7f, 1.0f, 3.0f, 1e30f, sampling.temperature});
    sampling.top_k = numbers.one_of({0, 0, 1, 7, 64, 1000});
    sampling.top_p = numbers.one_of({1.0f, 0.01f, 0.2f, 0.6f, 0.9f, 0.999f});
    sampler.read(row, sampling, {}, p);
    ASSERT_EQ(p, naive_distribution(row, sampling, {})) << "round " << round;
  }
}

TEST(Sampling, OfAllSamplersEqualsTheNaiveImplementationOnLongRows) {
  Numbers numbers{32};
  Sampler sampler;
  Distribution p;
  for (int round = 0; round < 1500; ++round) {
    const std::size_t size = numbers.one_of<std::size_t>({1, 63, 64, 65, 128, 320, 321, 2000});
    const Row row = round % 4 == 0 ? tied_row(numbers, size) : shaped_row(numbers, size);
    Sampling sampling = any_sampling(numbers);
    sampling.top_k = numbers.one_of({0, 0, 1, 7, 64, 1000});
    sampling.top_p = numbers.one_of({1.0f, 0.01f, 0.2f, 0.6f, 0.9f, 0.999f});
    sampler.read(row, sampling, {}, p);
    ASSERT_EQ(p, naive_distribution(row, sampling, {})) << "round " << round;
  }
}

TEST(Sampling, DoesNotDependOnTheNumberOfThreads) {
  Numbers numbers(9);
  Row spread_out;
  for (int i = 0; i < 50'000; ++i) spread_out.push_back(static_cast<float>(numbers.next() % 10'000) * 0.002f);
  Row unusable = spread_out;
  unusable[40'000] = nan;
  for (const Row& row : {spread_out, tied_row(numbers, 50'000)}) {
    for (int i = 0; i < 30; ++i) {
      const Sampling sampling = any_sampling(numbers);
      const auto with = [&](int count) {
        const Threads some(count);
        return sampled(row, sampling);
      };
      const Distribution expected = with(1);
      for (const int count : {2, 3, 7}) EXPECT_EQ(with(count), expected) << count << " threads";
    }
  }
  const Threads some(3);
  EXPECT_THROW(sampled(unusable, {}), Error);
}

TEST(Sampling, IsTheSoftmaxUpToTheRoundingOfTheExponential) {
  Numbers numbers{3};
  for (int round = 0; round < 200; ++round) {
    Row row;
    for (int i = 0; i < 50; ++i) row.push_back(static_cast<float>(numbers.next() >> 40) * 0x1p-20f - 8);
    const float temperature = 0.25f + static_cast<float>(round) * 0.02f;
    const double best = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float z : row) sum += std::exp((z - best) / temperature);
    const Distribution p = sampled(row, {.temperature = temperature});
    for (std::size_t i = 0; i < row.size(); ++i) {
      // Arguments down to -64 have the rounding error of a float, and raw weights that of 2^-40.
      const double expected = std::exp((row[i] - best) / temperature) / sum;
      EXPECT_NEAR(static_cast<double>(p.weight(static_cast<Token>(i))) / Distribution::total, expected,
                  expected * 64 * 0x1p-23 + 0x1p-40);
    }
  }
}

TEST(Sampling, GreedyIsThePointDistributionOnTheSmallestOfTheBestTokens) {
  EXPECT_EQ(sampled({1, 3, 2, 3}, {}), Distribution::point(1));
  EXPECT_EQ(sampled({-0.0f, 0.0f}, {}), Distribution::point(0));
  EXPECT_EQ(sampled({0.0f, -0.0f}, {}), Distribution::point(0));
  EXPECT_EQ(sampled({-5, -infinity}, {.temperature = -1}), Distribution::point(0));
  // With any other settings except penalties.
  EXPECT_EQ(sampled({1, 3, 2}, {.top_k = 2, .top_p = 0.1f, .min_p = 1}), Distribution::point(1));
  const Tokens history = {1};
  EXPECT_EQ(compute_distribution(Row{1, 3, 2}, {.presence_penalty = 2}, {history, {}}), Distribution::point(2));
}

TEST(Sampling, TiesAtTheEdgeOfTopKKeepTheSmallerTokens) {
  EXPECT_THAT(sampled({1, 2, 1, 2, 1}, {.temperature = 1, .top_k = 3}).tokens(), ElementsAre(0, 1, 3));
  EXPECT_THAT(sampled({0.0f, -0.0f, 0.0f}, {.temperature = 1, .top_k = 2}).tokens(), ElementsAre(0, 1));
  EXPECT_THAT(sampled({-1, -1, -1, 5}, {.temperature = 1, .top_k = 2}).tokens(), ElementsAre(0, 3));
}

TEST(Sampling, TiesAtTheEdgeOfTopPKeepTheSmallerTokensAndAnExactSumDropsTheNext) {
  EXPECT_THAT(sampled({1, 1, 1, 1}, {.temperature = 1, .top_p = 0.5f}).tokens(), ElementsAre(0, 1));
  EXPECT_THAT(sampled({1, 1, 1, 1}, {.temperature = 1, .top_p = 0.51f}).tokens(), ElementsAre(0, 1, 2));
  EXPECT_THAT(sampled({0, 9, 1}, {.temperature = 1, .top_p = 1e-30f}).tokens(), ElementsAre(1));
}

TEST(Sampling, ARawWeightEqualToTheThresholdOfMinPIsKept) {
  EXPECT_THAT(sampled({1, 1, 0.5f}, {.temperature = 1, .min_p = 1}).tokens(), ElementsAre(0, 1));
  const float e = exponential(-1.0f);
  EXPECT_THAT(sampled({1, 0}, {.temperature = 1, .min_p = e}).tokens(), ElementsAre(0, 1));
  EXPECT_THAT(sampled({1, 0}, {.temperature = 1, .min_p = std::nextafter(e, 1.0f)}).tokens(), ElementsAre(0));
}

TEST(Sampling, TransformsAreAppliedInTheirOrder) {
  // Temperature before top-p: hot enough, the nucleus of 0.6 needs two tokens, not one.
  EXPECT_THAT(sampled({2, 0}, {.temperature = 1, .top_p = 0.6f}).tokens(), ElementsAre(0));
  EXPECT_THAT(sampled({2, 0}, {.temperature = 100, .top_p = 0.6f}).tokens(), ElementsAre(0, 1));
  // Top-k before top-p: of three equals two survive, and one of them is half.
  EXPECT_THAT(sampled({1, 1, 1}, {.temperature = 1, .top_k = 2, .top_p = 0.5f}).tokens(), ElementsAre(0));
  // Penalties before top-k: the penalized best token is removed.
  const Tokens history = {0};
  const Sampling two = {.temperature = 1, .top_k = 2, .presence_penalty = 5};
  EXPECT_THAT(compute_distribution(Row{3, 2, 1}, two, {history, {}}).tokens(), ElementsAre(1, 2));
  // Repeat, then presence, then frequency times the count.
  const Tokens twice = {0, 0};
  const Sampling all = {.temperature = 1, .repeat_penalty = 2, .presence_penalty = 0.5f, .frequency_penalty = 0.25f};
  EXPECT_EQ(compute_distribution(Row{3, 1}, all, {twice, {}}), sampled({0.5f, 1}, {.temperature = 1}));
  EXPECT_EQ(compute_distribution(Row{-1, 1}, all, {twice, {}}), sampled({-3, 1}, {.temperature = 1}));
}

TEST(Sampling, NeutralValuesHaveNoEffect) {
  Numbers numbers{4};
  const Tokens history = {0, 1, 1, 2};
  const Sampling plain = {.temperature = 0.8f};
  std::vector<Sampling> neutral;
  for (const int k : {0, -1, 9, 10, 1 << 30}) neutral.push_back({.temperature = 0.8f, .top_k = k});
  for (const float p : {0.0f, -1.0f, 1.0f, 7.0f, nan}) neutral.push_back({.temperature = 0.8f, .top_p = p});
  for (const float p : {0.0f, -1.0f, 1.5f, nan}) neutral.push_back({.temperature = 0.8f, .min_p = p});
  for (const float r : {0.0f, -1.0f, 1.0f, nan}) neutral.push_back({.temperature = 0.8f, .repeat_penalty = r});
  neutral.push_back(
      {.temperature = 0.8f, .repeat_penalty = 3, .presence_penalty = 3, .frequency_penalty = 3, .repeat_last_n = 0});
  for (int round = 0; round < 100; ++round) {
    const Row row = tied_row(numbers, 9);
    const Distribution expected = sampled(row, plain);
    for (const Sampling& sampling : neutral) EXPECT_EQ(compute_distribution(row, sampling, {history, {}}), expected);
  }
}

TEST(Sampling, PenaltiesSeeTheSameTokensHoweverTheTextIsSplitIntoCommittedAndDrafted) {
  const Tokens text = {0, 1, 2, 1, 3, 3, 0, 4};
  const Row row = {1, -1, 2, -2, 0.5f, 3};
  for (int last = -1; last <= 10; ++last) {
    const Sampling sampling = {.temperature = 1,
                               .repeat_penalty = 1.7f,
                               .presence_penalty = 0.3f,
                               .frequency_penalty = 0.2f,
                               .repeat_last_n = last};
    for (std::size_t length = 0; length <= text.size(); ++length) {
      const auto seen = std::span(text).first(length);
      const Distribution expected = naive_distribution(row, sampling, Tokens(seen.begin(), seen.end()));
      for (std::size_t split = 0; split <= length; ++split) {
        EXPECT_EQ(compute_distribution(row, sampling, {seen.first(split), seen.subspan(split)}), expected)
            << "the last " << last << " of " << length << ", split at " << split;
      }
    }
  }
}

TEST(Sampling, ImpossibleTokensHaveNoWeightAtAnyTemperature) {
  for (const float temperature : {1e-38f, denormal, 0.5f, 1.0f, 1e30f, largest}) {
    for (const int k : {0, 3}) {
      const Distribution p = sampled({-infinity, 1, -infinity, 0.5f}, {.temperature = temperature, .top_k = k});
      EXPECT_EQ(p.weight(0), 0u) << temperature;
      EXPECT_EQ(p.weight(2), 0u) << temperature;
      EXPECT_GT(p.weight(1), 0u);
    }
  }
}

TEST(Sampling, ExtremeTemperaturesAndLogitsGiveValidDistributions) {
  EXPECT_EQ(sampled({1, 2, 1.5f}, {.temperature = 1e-38f}), Distribution::point(1));
  EXPECT_EQ(sampled({1, 2, 2}, {.temperature = denormal}),
            Distribution::exact(Tokens{1, 2}, std::vector{Distribution::total / 2, Distribution::total / 2}));
  EXPECT_EQ(sampled({1, 2, -7, 3}, {.temperature = largest}),
            Distribution::exact({}, std::vector<std::uint64_t>(4, Distribution::total / 4)));
  EXPECT_EQ(sampled({5, 5, 5, 5}, {.temperature = 0.3f}),
            Distribution::exact({}, std::vector<std::uint64_t>(4, Distribution::total / 4)));
  EXPECT_EQ(sampled({denormal, -denormal}, {.temperature = 1}),
            Distribution::exact({}, std::vector<std::uint64_t>(2, Distribution::total / 2)));
  EXPECT_EQ(sampled({-infinity, 4}, {.temperature = 1}), Distribution::point(1));
  EXPECT_EQ(sampled({largest, -largest}, {.temperature = 1}), Distribution::point(0));
  EXPECT_EQ(sampled({4}, {.temperature = 1, .top_k = 1, .top_p = 0.5f, .min_p = 0.5f}), Distribution::point(0));
}

std::string error_of(const Row& row, const Sampling& sampling, const Tokens& history = {}) {
  try {
    compute_distribution(row, sampling, {history, {}});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Sampling, TheUsualStepsInTheirOrderAreReadInOneScan) {
  EXPECT_TRUE(scan_suffices({.temperature = 1, .top_k = 2, .top_p = 0.5f, .min_p = 0.1f, .repeat_penalty = 1.5f}));
  EXPECT_FALSE(scan_suffices({.temperature = 1, .top_k = 2, .typical_p = 0.5f}));
}

TEST(Sampling, InvalidRowsAreErrorsThatNameTheToken) {
  for (const float temperature : {0.0f, 1.0f}) {
    EXPECT_THAT(error_of({1, 2, nan, 3}, {.temperature = temperature}), HasSubstr("token 2 is NaN"));
    EXPECT_THAT(error_of({nan, 2}, {.temperature = temperature}), HasSubstr("token 0 is NaN"));
    EXPECT_THAT(error_of({1, infinity}, {.temperature = temperature}), HasSubstr("token 1 is +infinity"));
    EXPECT_THAT(error_of({-infinity, -infinity}, {.temperature = temperature}), HasSubstr("none of the 2 logits"));
  }
  for (const float typical_p : {1.0f, 0.5f}) {  // which is no part of the scan of a row
    EXPECT_THAT(error_of({1, 2, nan, 3}, {.temperature = 1, .typical_p = typical_p}), HasSubstr("token 2 is NaN"));
    EXPECT_THAT(error_of({1, infinity}, {.temperature = 1, .typical_p = typical_p}), HasSubstr("token 1 is +infinity"));
    EXPECT_THAT(error_of({1, largest}, {.temperature = 1, .repeat_penalty = 0.5f, .typical_p = typical_p}, {1}),
                HasSubstr("token 1 is +infinity"));
  }
  EXPECT_THAT(error_of({1, -infinity}, {.presence_penalty = -infinity}, {1}), HasSubstr("token 1 is NaN"));
  for (const float temperature : {infinity, nan})
    EXPECT_THAT(error_of({1, 2}, {.temperature = temperature}), HasSubstr("temperature is not finite"));
}

}  // namespace
}  // namespace draftproof::sampler_test
