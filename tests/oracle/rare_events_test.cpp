// SPDX-License-Identifier: MIT
#include "oracle/sequential/rare_events.h"

#include <gtest/gtest.h>

#include <cmath>

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

/// The probability that more than `too_few` of `things` happen, each with probability p.
double more_than(long too_few, long things, double p) {
  double below = 0;
  for (long n = 0; n <= too_few; ++n) {
    const auto real = [](long value) { return static_cast<double>(value); };
    below += std::exp(std::lgamma(real(things) + 1) - std::lgamma(real(n) + 1) - std::lgamma(real(things - n) + 1) +
                      real(n) * std::log(p) + real(things - n) * std::log1p(-p));
  }
  return 1 - below;
}

TEST(RareEvents, TheFrequencySeenRaisesAnAlarmInNinetyNineOfAHundredRuns) {
  constexpr double alpha = 1e-9;
  for (const double probability : {0.0, 1e-5, 1e-3, 0.01, 0.1}) {
    for (const long things : {100, 1000, 10000}) {
      RareEvents none;
      for (long i = 0; i < things; ++i) none.observe(probability, false);
      const double seen = none.frequency_seen(alpha);
      EXPECT_GT(seen, probability);
      // The most that can happen at the end of the run without an alarm.
      RareEvents run;
      for (long i = 0; i < things; ++i) run.observe(probability, false);
      long quiet = -1;
      do {
        run.observe(0, true);
        ++quiet;
      } while (quiet < things && run.e_value() * alpha < 1);
      if (seen == 1) continue;
      EXPECT_GE(more_than(quiet, things, seen), 0.99) << probability << " of " << things;
      EXPECT_LT(seen, 4 * probability + 40.0 / static_cast<double>(things)) << "and it is not far from the smallest";
    }
  }
}

TEST(RareEvents, TooFewShowNoFrequency) {
  RareEvents events;
  EXPECT_EQ(events.frequency_seen(1e-9), 1);
  for (int i = 0; i < 20; ++i) events.observe(0.5, false);
  EXPECT_EQ(events.frequency_seen(1e-9), 1);
}

}  // namespace
}  // namespace draftproof::rare_events_test
