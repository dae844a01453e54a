// SPDX-License-Identifier: MIT
// For every distribution within the slack, the distribution after the cuts lies within the slack of the row and has
// weight only on possible tokens. Compared with the shortest program that cuts, for every order of samplers.
#include "oracle/spectrace/nearby_distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "ref/acceptance/sampler.h"
#include "tests/fuzz/damage.h"

namespace draftproof::spectrace::nearby_distribution_test {
namespace {

using OutcomeDistribution = std::map<Token, double>;

OutcomeDistribution scaled(OutcomeDistribution distribution) {
  double sum = 0;
  for (const auto& [token, p] : distribution) sum += p;
  for (auto& [token, p] : distribution) p /= sum;
  return distribution;
}

std::vector<std::pair<double, Token>> ranked(const OutcomeDistribution& distribution) {
  std::vector<std::pair<double, Token>> list;
  for (const auto& [token, p] : distribution) list.emplace_back(-p, token);
  std::sort(list.begin(), list.end());
  return list;
}

/// Applies the samplers one after the other to probabilities at temperature 1.
OutcomeDistribution sampled(OutcomeDistribution distribution, const Sampling& s,
                            const std::vector<std::string>& order) {
  for (const std::string& name : order) {
    distribution = scaled(distribution);
    const auto list = ranked(distribution);
    double before = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const double p = -list[i].first;
      const bool cut = (name == "top_k" && s.top_k > 0 && i >= static_cast<std::size_t>(s.top_k)) ||
                       (name == "top_p" && s.top_p < 1 && before >= static_cast<double>(s.top_p)) ||
                       (name == "min_p" && s.min_p > 0 && p < static_cast<double>(s.min_p) * -list[0].first);
      if (cut) distribution.erase(list[i].second);
      before += p;
    }
    if (name != "temperature") continue;
    for (auto& [token, p] : distribution) p = std::pow(p, 1 / static_cast<double>(s.temperature));
  }
  return scaled(distribution);
}

double apart(const OutcomeDistribution& a, const OutcomeDistribution& b) {
  double sum = 0;
  for (const auto& [token, p] : a) sum += std::max(0.0, p - (b.contains(token) ? b.at(token) : 0.0));
  return sum;
}

OutcomeDistribution compute_distribution(const Distribution& row) {
  OutcomeDistribution distribution;
  const auto tokens = row.tokens();
  const auto weights = row.weights();
  for (std::size_t i = 0; i < tokens.size(); ++i) distribution[tokens[i]] = static_cast<double>(weights[i]) * 0x1p-52;
  return distribution;
}

double one(Numbers& numbers) { return static_cast<double>(numbers.next() >> 11) * 0x1p-53; }

std::vector<double> some_logits(Numbers& numbers, int size) {
  std::vector<double> logits;
  for (int i = 0; i < size; ++i) {
    logits.push_back(static_cast<float>(4 * (one(numbers) + one(numbers) + one(numbers))));
    if (numbers.below(4) == 0 && i > 0) logits.back() = logits.front();  // ties
  }
  return logits;
}

OutcomeDistribution softmax(const std::vector<double>& logits, double temperature) {
  OutcomeDistribution distribution;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    distribution[static_cast<Token>(i)] = std::exp(logits[i] / temperature);
  }
  return scaled(distribution);
}

/// Returns another distribution at most that far away: moves mass from some tokens to others.
OutcomeDistribution moved(OutcomeDistribution distribution, double slack, Numbers& numbers) {
  double left = slack * one(numbers);
  double taken = 0;
  for (int i = 0; i < 4; ++i) {
    double& p = distribution[static_cast<Token>(numbers.below(distribution.size()))];
    const double part = std::min(p, left * one(numbers));
    p -= part;
    left -= part;
    taken += part;
  }
  for (int i = 0; i < 3; ++i) {
    const double part = i == 2 ? taken : taken * one(numbers);
    distribution[static_cast<Token>(numbers.below(distribution.size()))] += part;
    taken -= part;
  }
  return distribution;
}

Sampling some_sampling(Numbers& numbers) {
  Sampling s;
  s.temperature = numbers.below(2) == 0 ? 1.0F : 0.7F;
  if (numbers.below(2) == 0) s.top_k = static_cast<int>(1 + numbers.below(6));
  if (numbers.below(2) == 0) s.top_p = static_cast<float>(0.3 + 0.69 * one(numbers));
  if (numbers.below(2) == 0) s.min_p = static_cast<float>(0.3 * one(numbers));
  return s;
}

TEST(NearbyDistribution, EqualsOursWithoutSlack) {
  Numbers numbers(3);
  for (int n = 0; n < 300; ++n) {
    const auto logits = some_logits(numbers, 12);
    const Sampling s = some_sampling(numbers);
    const auto near = nearby_distribution(logits, s, our_order(), {}, 1e-9);
    ASSERT_TRUE(near.has_value());
    const Distribution own = compute_distribution(std::vector<float>(logits.begin(), logits.end()), s, {});
    EXPECT_LT(apart(compute_distribution(near->p), compute_distribution(own)), 1e-6) << n;
    EXPECT_GE(near->slack, 1e-9);
    for (const Token token : own.tokens()) EXPECT_TRUE(near->allows(token));
  }
}

TEST(NearbyDistribution, ContainsEveryEngineWithinTheSlackForEverySamplerOrder) {
  const std::vector<std::vector<std::string>> orders = {{"temperature", "top_k", "top_p", "min_p"},
                                                        {"top_k", "top_p", "min_p", "temperature"},
                                                        {"top_p", "temperature", "top_k", "min_p"},
                                                        {"min_p", "top_k", "temperature", "top_p"}};
  Numbers numbers(5);
  int moved_edges = 0;
  for (int n = 0; n < 4000; ++n) {
    const auto logits = some_logits(numbers, 10);
    Sampling s = some_sampling(numbers);
    const auto& order = orders[n % orders.size()];
    // The slack is that of the probabilities that the cuts see: with another temperature after a cut it is not one
    // number.
    if (n % orders.size() != 0) s.temperature = 1;
    const double slack = n % 3 == 0 ? 1e-6 : n % 3 == 1 ? 1e-3 : 0.02;
    const auto near = nearby_distribution(logits, s, order, {}, slack);
    ASSERT_TRUE(near.has_value());
    const OutcomeDistribution own = compute_distribution(near->p);
    for (int change = 0; change < 20; ++change) {
      OutcomeDistribution theirs = moved(softmax(logits, s.temperature), slack, numbers);
      Sampling cuts = s;
      cuts.temperature = 1;  // the probabilities already have it
      theirs = sampled(theirs, cuts, order);
      EXPECT_LE(apart(own, theirs), near->slack + 1e-9) << n;
      for (const auto& [token, p] : theirs) {
        EXPECT_TRUE(near->allows(token)) << n;
        moved_edges += own.contains(token) ? 0 : 1;
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(moved_edges, 100) << "or the test shows nothing of edges";
}

TEST(NearbyDistribution, TemperatureAfterTheCutsDoesNotChangeWhichTokensTheyKeep) {
  const std::vector<double> logits = {4, 3, 2, 1, 0};
  Sampling s{.temperature = 0.5F, .top_p = 0.9F};
  const auto last = nearby_distribution(logits, s, {"top_p", "temperature"}, {}, 1e-9);
  const auto first = nearby_distribution(logits, s, our_order(), {}, 1e-9);
  EXPECT_EQ(last->p.tokens().size(), 3U);
  EXPECT_EQ(first->p.tokens().size(), 2U);
  EXPECT_LT(apart(compute_distribution(last->p), sampled(softmax(logits, 1), s, {"top_p", "temperature"})), 1e-12);
}

TEST(NearbyDistribution, IsUnknownForAnUnknownSampler) {
  const std::vector<double> logits = {1, 2, 3};
  const Sampling s{.temperature = 1, .top_k = 2, .repeat_penalty = 1.5F};
  EXPECT_FALSE(nearby_distribution(logits, s, {"top_k", "of my own", "temperature"}, {}, 0.1));
  EXPECT_FALSE(nearby_distribution(logits, s, {"top_k", "penalties"}, {}, 0.1)) << "penalties after a cut";
  EXPECT_TRUE(nearby_distribution(logits, s, {"penalties", "top_k", "temperature"}, {}, 0.1));
}

TEST(SamplersInEffect, AreThoseThatChangeAnythingInTheirOrder) {
  using Names = std::vector<std::string>;
  const Names llama = {"penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"};
  EXPECT_EQ(samplers_in_effect(llama, {.temperature = 1}), Names());
  EXPECT_EQ(samplers_in_effect(llama, {.temperature = 0.5F}), Names()) << "without a cut its place does not matter";
  EXPECT_EQ(samplers_in_effect(llama, {.temperature = 0.5F, .top_p = 0.9F}), (Names{"top_p", "temperature"}));
  EXPECT_EQ(samplers_in_effect({"top_p"}, {.temperature = 0.5F, .top_k = 3, .top_p = 0.9F}),
            (Names{"top_p", "temperature", "top_k"}))
      << "those that are missing come last, in our order";
  EXPECT_EQ(unknown_sampler(llama), std::nullopt);
  EXPECT_EQ(unknown_sampler({"top_k", "of my own"}), "of my own");
}

TEST(NearbyDistribution, OfAGrammarIsWhatTheMaskLeaves) {
  const std::vector<double> logits = {1, 3, 2, 0};
  TokenSet allowed(4);
  allowed.add(0);
  allowed.add(2);
  Sampling s{.temperature = 1};
  s.logit_bias = {{0, 1}};
  const auto near = nearby_distribution(logits, s, our_order(), {}, 1e-3, &allowed);
  ASSERT_TRUE(near);
  EXPECT_EQ(near->p.tokens(), (std::vector<Token>{0, 2}));
  EXPECT_NEAR(static_cast<double>(near->p.weight(0)) / static_cast<double>(Distribution::total), 0.5, 1e-9)
      << "1 and a bias of 1 are as much as 2";
  EXPECT_FALSE(near->allows(1));
  EXPECT_FALSE(near->allows(3));
  // exp(2) + exp(2) of exp(2) + exp(3) + exp(2) + 1 is left.
  EXPECT_NEAR(near->slack, 2e-3 * (2 * std::exp(2.0) + std::exp(3.0) + 1) / (2 * std::exp(2.0)), 1e-9);
  allowed.remove(0);
  allowed.remove(2);
  allowed.add(3);
  EXPECT_EQ(nearby_distribution(logits, s, our_order(), {}, 0.03, &allowed)->slack, 1) << "hardly anything is left";
}

TEST(BestToken, IsOneThatIsAllowed) {
  const std::vector<double> logits = {1, 3, 2, 0};
  TokenSet allowed(4);
  allowed.add(0);
  allowed.add(2);
  Sampling s;
  s.logit_bias = {{0, 5}};
  const BestToken best(logits, s, {}, &allowed);
  EXPECT_EQ(best.token(), 0);
  EXPECT_EQ(best.gap(2), 4);
  EXPECT_TRUE(std::isinf(best.gap(1)));
  EXPECT_EQ(best.apart(1), 1) << "no slack makes a near tie of it";
}

TEST(BestToken, ReturnsHowFarAnotherTokenLiesBelowTheBest) {
  const std::vector<double> logits = {1, 3, 2.5, 3};
  const BestToken best(logits, {}, {});
  EXPECT_EQ(best.token(), 1) << "the smallest among equals";
  EXPECT_EQ(best.gap(3), 0);
  EXPECT_EQ(best.gap(2), 0.5);
  const double sum = std::exp(-2.0) + 1 + std::exp(-0.5) + 1;
  EXPECT_NEAR(best.apart(2), (1 - std::exp(-0.5)) / sum, 1e-12);
}

}  // namespace
}  // namespace draftproof::spectrace::nearby_distribution_test
