// SPDX-License-Identifier: MIT
#include "ref/acceptance/feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ref/acceptance/sampler.h"

namespace draftproof::feedback_test {
namespace {

/// The row that adaptive p makes of another one, of two tokens, for this aim.
Distribution drawn_to(const Distribution& row, double aim) {
  std::vector<float> logits;
  for (const Token token : {0, 1}) {
    const double p = static_cast<double>(row.weight(token)) / static_cast<double>(Distribution::total);
    const double off = std::fabs(p - aim) / 0.3;
    logits.push_back(static_cast<float>(5 - 10 * off * off / (1 + off)));
  }
  return compute_distribution(logits, {.temperature = 1}, {});
}

TEST(Feedback, TheAimOfAdaptivePIsAProbabilityWhateverWasDrawnBefore) {
  const std::uint64_t tenth = Distribution::total / 10;
  const Distribution row = Distribution::exact({}, std::vector<std::uint64_t>{Distribution::total - tenth, tenth});
  Feedback low({.temperature = 1, .adaptive_target = 0.3F, .adaptive_decay = 0.5F});
  Feedback high({.temperature = 1, .adaptive_target = 0.7F, .adaptive_decay = 0.5F});
  EXPECT_EQ(low.applied_to(row), drawn_to(row, 0.3F));
  for (int i = 0; i < 20; ++i) {
    low = low.after(row, 0);    // 2 * 0.3 - 0.9
    high = high.after(row, 1);  // 2 * 0.7 - 0.1
  }
  EXPECT_EQ(low.applied_to(row), drawn_to(row, 0));
  EXPECT_EQ(high.applied_to(row), drawn_to(row, 1));
}

}  // namespace
}  // namespace draftproof::feedback_test
