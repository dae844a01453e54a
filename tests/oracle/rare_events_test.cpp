// SPDX-License-Identifier: MIT
#include "oracle/sequential/rare_events.h"

#include <gtest/gtest.h>

#include "tests/fuzz/damage.h"

namespace draftproof::rare_events_test {
namespace {

/// Events with probabilities around 1 in 100, which happen `factor` times as often as stated.
double e_value_of(double factor, int things, std::uint64_t seed) {
  Numbers numbers(seed);
  RareEvents events;
  for (int i = 0; i < things; ++i) {
    const double probability = 0.001 * static_cast<double>(1 + numbers.below(20));
    events.observe(probability, static_cast<double>(numbers.next() >> 11) * 0x1p-53 < factor * probability);
  }
  return events.e_value();
}

TEST(RareEvents, AreNoEvidenceAtTheStatedFrequency) {
  int alarms = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const double e_value = e_value_of(1, 3000, seed);
    EXPECT_LT(e_value, 1e6);
    alarms += e_value >= 20;
  }
  EXPECT_LE(alarms, 20) << "of 400 at 1 in 20";
}

TEST(RareEvents, AreEvidenceAtThreeTimesTheStatedFrequency) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_GT(e_value_of(3, 6000, seed), 1e9);
}

TEST(RareEvents, AnImpossibleEventIsOverwhelmingEvidence) {
  RareEvents events;
  events.observe(0, false);
  EXPECT_EQ(events.e_value(), 1);
  events.observe(0, true);
  EXPECT_GT(events.e_value(), 1e9);
  EXPECT_EQ(events.happened(), 1);
  EXPECT_EQ(events.observed(), 2);
}

}  // namespace
}  // namespace draftproof::rare_events_test
