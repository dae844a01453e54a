// SPDX-License-Identifier: MIT
#include "oracle/sequential/expected_acceptance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fuzz/damage.h"

namespace draftproof::expected_acceptance_test {
namespace {

/// Returns a comparison of `sequences` sequences of 40 rounds, where first draft tokens are accepted with probabilities
/// around `first` and `second`.
ExpectedAcceptance compared(double first, double second, int sequences, std::uint64_t seed) {
  Numbers numbers(seed);
  const auto sequence = [&](double mean) {
    ExpectedAcceptance::ByDepth sums;
    const double of_text = static_cast<double>(numbers.below(1000)) * 2e-4;  // some texts are easy
    for (int n = 0; n < 40; ++n) {
      const double spread = static_cast<double>(numbers.below(1000)) * 4e-4 - 0.2;
      ExpectedAcceptance::add(sums, 0, mean + spread + of_text);
    }
    return sums;
  };
  ExpectedAcceptance result;
  for (int s = 0; s < sequences; ++s) {
    const auto in_first = sequence(first);
    result.observe(in_first, sequence(second));
  }
  return result;
}

TEST(ExpectedAcceptance, AWorseDraftIsCalledSlowerAndTheSameOrABetterOneNever) {
  EXPECT_TRUE(compared(0.6, 0.3, 80, 1).slower());
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    EXPECT_FALSE(compared(0.5, 0.5, 300, seed).slower()) << seed;
    EXPECT_FALSE(compared(0.4, 0.6, 100, seed).slower()) << seed;
  }
}

TEST(ExpectedAcceptance, FewSequencesAreReportedAndCalledNothing) {
  const ExpectedAcceptance few = compared(0.6, 0.3, 10, 1);
  EXPECT_FALSE(few.slower());
  EXPECT_THAT(few.text("a", "b"), testing::HasSubstr("in a and b: 0."));
  EXPECT_EQ(ExpectedAcceptance().text("a", "b"), "");
}

}  // namespace
}  // namespace draftproof::expected_acceptance_test
