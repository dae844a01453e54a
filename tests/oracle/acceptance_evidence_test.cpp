// SPDX-License-Identifier: MIT
#include "oracle/sequential/acceptance_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace draftproof::acceptance_evidence_test {
namespace {

using testing::HasSubstr;
using Bits = std::mt19937_64;

double coin(Bits& bits) { return static_cast<double>(bits() >> 11) * 0x1p-53; }

/// The probability with which an engine accepts when it should accept with probability a.
using OutcomeDistribution = std::function<double(double a)>;

AcceptanceEvidence fed(const OutcomeDistribution& distribution, std::uint64_t seed, int judged, double rounding = 0) {
  AcceptanceEvidence evidence(1e-9);
  Bits bits(seed);
  for (int n = 0; n < judged; ++n) {
    const double a = std::min(1.0, 1.25 * coin(bits));
    evidence.observe(a, coin(bits) < distribution(a), rounding);
  }
  return evidence;
}

int alarms_at_one_in_twenty(const OutcomeDistribution& distribution) {
  int alarms = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const AcceptanceEvidence evidence = fed(distribution, seed, 5000);
    alarms += evidence.e_value() >= 20;
  }
  return alarms;
}

TEST(AcceptanceEvidence, RaisesNoAlarmForRightEngines) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) EXPECT_FALSE(fed([](double a) { return a; }, seed, 5000).alarm());
  EXPECT_LE(alarms_at_one_in_twenty([](double a) { return a; }), 10) << "of 200";
}

TEST(AcceptanceEvidence, TheSameTestFindsAcceptanceOneTenthTooOften) {
  EXPECT_GT(alarms_at_one_in_twenty([](double a) { return std::min(1.0, 1.1 * a); }), 100) << "of 200";
}

TEST(AcceptanceEvidence, TheSameTestFindsAProbabilityStatedAfterTheOutcome) {
  AcceptanceEvidence evidence(1e-9);
  Bits bits(1);
  for (int n = 0; n < 5000; ++n) {
    const bool accepted = coin(bits) < 0.5;
    evidence.observe(accepted ? 0.3 : 0.5, accepted);
  }
  EXPECT_TRUE(evidence.alarm());
}

TEST(AcceptanceEvidence, FindsTokensThatAreAcceptedTooOften) {
  AcceptanceEvidence evidence(1e-9);
  for (int n = 0; n < 306; ++n) evidence.observe(0.001, n >= 15);
  EXPECT_TRUE(evidence.alarm());
  EXPECT_EQ(evidence.judged(), 306);
  EXPECT_EQ(evidence.accepted(), 291);
  EXPECT_NEAR(evidence.expected(), 0.306, 1e-9);
  EXPECT_EQ(evidence.suspect(), "draft tokens are accepted too often");
  EXPECT_THAT(evidence.describe(), HasSubstr("306 draft tokens verified, 291 accepted (expected 0.306)"));
}

TEST(AcceptanceEvidence, FindsEveryFaultOfAcceptance) {
  const auto sees = [](const OutcomeDistribution& distribution, int judged, const std::string& suspect) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const AcceptanceEvidence evidence = fed(distribution, seed, judged);
      EXPECT_TRUE(evidence.alarm()) << evidence.describe();
      EXPECT_EQ(evidence.suspect(), suspect);
    }
  };
  sees([](double) { return 1; }, 300, "draft tokens are accepted too often");
  sees([](double a) { return std::sqrt(a); }, 1000, "draft tokens are accepted too often");
  sees([](double a) { return std::min(1.0, 1.25 * a); }, 2000, "draft tokens are accepted too often");
  sees([](double) { return 0; }, 300, "draft tokens are accepted too rarely");
  sees([](double a) { return a * a; }, 1000, "draft tokens are accepted too rarely");
}

TEST(AcceptanceEvidence, StatedRoundingRaisesNoAlarm) {
  const OutcomeDistribution rounded = [](double a) { return std::min(1.0, 1.1 * a); };
  EXPECT_TRUE(fed(rounded, 1, 100000).alarm());
  EXPECT_LT(fed(rounded, 1, 100000, 0.1).e_value(), 20);
}

TEST(AcceptanceEvidence, ACoarseCoinMayMissSmallProbabilities) {
  AcceptanceEvidence evidence(1e-9);
  for (int n = 0; n < 1 << 22; ++n) evidence.observe(0x1p-40, n % (1 << 20) == 0);  // accepted when the coin is 0
  EXPECT_EQ(evidence.accepted(), 4);
  EXPECT_LT(evidence.e_value(), 20);
}

TEST(AcceptanceEvidence, CertainAndImpossibleOutcomesAreCountedAndNotBetOn) {
  AcceptanceEvidence evidence(1e-9);
  for (int n = 0; n < 1000; ++n) {
    evidence.observe(1, false);
    evidence.observe(0.999, false, 0.01);
    evidence.observe(0, true);
  }
  EXPECT_EQ(evidence.judged(), 3000);
  EXPECT_EQ(evidence.e_value(), 1);
  EXPECT_EQ(evidence.suspect(), "none");
}

TEST(AcceptanceEvidence, BetsOnRareAcceptancesAreFairWhereTheProbabilityIsHigherThanStated) {
  const auto max = [](double probability, std::uint64_t seed) {
    AcceptanceEvidence evidence(1e-9, AcceptanceEvidence::Side::rare);
    Bits bits(seed);
    for (int n = 0; n < 5000; ++n) evidence.observe(1.0 / 3, coin(bits) < probability);
    return evidence.e_value();
  };
  int at_one_in_twenty = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    at_one_in_twenty += max(1.0 / 3, seed) >= 20;
    EXPECT_LT(max(0.5, seed), 20);
    EXPECT_LT(max(1, seed), 20) << "more than stated is no evidence";
    EXPECT_GT(max(0.25, seed), 1e9);
  }
  EXPECT_LE(at_one_in_twenty, 10) << "of 200";
}

TEST(AcceptanceEvidence, KnowsWhereAFaultMayBegin) {
  AcceptanceEvidence evidence(1e-9, AcceptanceEvidence::Side::rare);
  EXPECT_TRUE(evidence.at_lowest());
  for (int n = 0; n < 100; ++n) evidence.observe(0.5, true);
  EXPECT_TRUE(evidence.at_lowest()) << "acceptances are no evidence";
  evidence.observe(0.5, false);
  EXPECT_FALSE(evidence.at_lowest());
}

TEST(AcceptanceEvidence, ContinuesAfterAnAlarm) {
  AcceptanceEvidence evidence(1e-9);
  for (int n = 0; n < 5000; ++n) evidence.observe(0.001, true);
  EXPECT_GT(evidence.e_value(), 1e200);
  EXPECT_TRUE(std::isfinite(evidence.e_value()));
  EXPECT_EQ(evidence.judged(), 5000);
}

}  // namespace
}  // namespace draftproof::acceptance_evidence_test
