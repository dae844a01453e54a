// SPDX-License-Identifier: MIT
// The listed fault models have the distributions of the mutants: every draw of a mutant is enumerated, and the
// distribution of its first token compared, for every pair of distributions over three tokens with weights in sixths.
#include "oracle/sequential/fault_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "oracle/exact/enumerate.h"
#include "tests/acceptance/tiny_decoders.h"
#include "tests/oracle/positions.h"
#include "zoo/parts.h"

namespace draftproof::fault_models_test {
namespace {

constexpr double rounding = 1e-12;  // of a handful of doubles between 0 and 1

const FaultModel& model_named(const std::string& name) {
  for (const FaultModel& distribution : fault_models()) {
    if (distribution.name == name) return distribution;
  }
  ADD_FAILURE() << "no fault model is named " << name;
  return fault_models()[0];
}

std::vector<double> compute_distribution(const std::string& name, const PositionDistributions& given) {
  std::vector<double> r(given.tokens.size());
  model_named(name).distribution(given, r);
  return r;
}

/// The distribution of the first token when one draft token is judged, by enumeration.
std::vector<double> enumerated(const Rule& rule, const Position& position, const Drafting& drafting, int vocabulary) {
  std::vector<Rational> distribution(static_cast<std::size_t>(vocabulary));
  EnumeratedSource random;
  do {
    random.begin_path();
    Proposal proposal;
    proposal.tokens = {drafting.draft_token(position.q, {0, 0, drafting.purpose}, random)};
    proposal.drawn_from = {position.q};
    const Rows rows = [&](const Text&) { return position.p; };
    TextRows target(rows, {}, proposal);
    const Verdict verdict = rule.judge(proposal, target, 0, 0, random);
    const Token token = verdict.accepted > 0 ? proposal.tokens[0] : verdict.next;
    distribution[token] += random.probability();
  } while (random.next_path());
  std::vector<double> result;
  for (const Rational& probability : distribution) result.push_back(probability.convert_to<double>());
  return result;
}

Drafting with_noise(Purpose purpose) {
  Drafting drafting;
  drafting.purpose = purpose;
  return drafting;
}

Drafting naming_the_best() {
  Drafting drafting;
  drafting.draft_token = [](const Distribution& q, const Key&, RandomSource&) {
    const std::vector<std::uint64_t> weights = q.weights();
    const auto best = std::max_element(weights.begin(), weights.end()) - weights.begin();
    return q.tokens()[best];
  };
  return drafting;
}

TEST(FaultModels, AreTheDistributionsOfTheMutants) {
  const Drafting sound = with_noise(Purpose::draft);
  const Drafting residual_noise = with_noise(Purpose::residual);
  const Drafting best = naming_the_best();
  const struct {
    const char* name;
    const Rule& rule;
    const Drafting& drafting;
  } mutants[] = {
      {"accept all", zoo::accepts_all, sound},
      {"accept the possible", zoo::accepts_what_is_possible, sound},
      {"residual is p", zoo::replacement_from_whole_target, sound},
      {"rejected token only", zoo::rejected_token_subtracted_only, sound},
      {"one number twice", zoo::replacement_with_accept_key, sound},
      {"draft noise as residual", zoo::draft_noise_of_replacement, residual_noise},
      {"best stated as drawn", rejection, best},
      {"always the best", zoo::always_best, sound},
  };
  const std::vector<Distribution> rows = all_distributions(3, 6);
  for (const auto& mutant : mutants) {
    int differ = 0;  // from p: a model equal to p bets on nothing
    for (const Distribution& p : rows) {
      for (const Distribution& q : rows) {
        const Position position{p, q};
        const PositionDistributions given = make_distributions(position, 3);
        const std::vector<double> found = compute_distribution(mutant.name, given);
        const std::vector<double> expected = enumerated(mutant.rule, position, mutant.drafting, 3);
        for (std::size_t token = 0; token < 3; ++token) {
          ASSERT_NEAR(found[token], expected[token], rounding)
              << mutant.name << ", p " << testing::PrintToString(given.p) << ", q " << testing::PrintToString(given.q);
          differ += std::abs(expected[token] - given.p[token]) > 1e-9;
        }
      }
    }
    EXPECT_GT(differ, 0) << mutant.name;
  }
}

TEST(FaultModels, SumToOneOnPositionsOfEveryShape) {
  for (const FaultModel& distribution : fault_models()) {
    for (int index = 0; index < 500; ++index) {
      const int vocabulary = 2 + index % 60;
      const PositionDistributions given = make_distributions(position_of(vocabulary, index), vocabulary);
      std::vector<double> r(given.tokens.size());
      distribution.distribution(given, r);
      double sum = 0;
      for (const double value : r) {
        EXPECT_GE(value, 0) << distribution.name;
        sum += value;
      }
      ASSERT_NEAR(sum, 1, rounding) << distribution.name << ", position " << index;
    }
  }
}

TEST(FaultModels, WithAPerfectDraftOnlyFaultsOfOtherPartsDiffer) {
  const std::set<std::string> differ = {
      "ratio inverted", "best stated as drawn", "sharper than stated", "drawn again", "always the best", "colder",
      "hotter",         "a little colder",      "a little hotter",     "tail missing"};
  Position position = position_of(16, 3);
  position.q = position.p;
  const PositionDistributions given = make_distributions(position, 16);
  for (const FaultModel& distribution : fault_models()) {
    const std::vector<double> r = compute_distribution(distribution.name, given);
    double distance = 0;
    for (std::size_t i = 0; i < r.size(); ++i) distance += std::abs(r[i] - given.p[i]) / 2;
    if (differ.contains(distribution.name)) continue;
    EXPECT_LT(distance, rounding) << distribution.name;
  }
}

TEST(FaultModels, HaveUniqueNames) {
  std::set<std::string> names;
  for (const FaultModel& model : fault_models()) EXPECT_TRUE(names.insert(model.name).second) << model.name;
}

}  // namespace
}  // namespace draftproof::fault_models_test
