// SPDX-License-Identifier: MIT
// The full text of a finding, and whether a failure has all of its parts.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "oracle/checks/check.h"
#include "oracle/exact/build_checks.h"

namespace draftproof {

/// Returns the message and the facts.
inline std::string told(const Finding& finding) {
  std::string text = finding.message;
  if (finding.failure) {
    for (const std::string& fact : finding.failure->facts) text += "; " + fact;
  }
  return text;
}

/// Expects a failure to have both sides, the facts that separate them, and the blame of its check; other findings have
/// no failure.
inline void expect_whole(const Finding& finding) {
  const bool flagged = finding.outcome == Outcome::fail || finding.outcome == Outcome::perf_regression;
  ASSERT_EQ(finding.failure.has_value(), flagged) << finding.message;
  if (!finding.failure) return;
  const Failure& failure = *finding.failure;
  EXPECT_NE(failure.expected, "") << finding.message;
  EXPECT_NE(failure.observed, "") << finding.message;
  EXPECT_NE(failure.expected, failure.observed) << finding.message;
  EXPECT_FALSE(failure.facts.empty()) << finding.message;
  for (const std::string& fact : failure.facts) EXPECT_NE(fact, "") << finding.message;
  EXPECT_EQ(failure.blames, check_named(finding.check).blames);
  EXPECT_EQ(failure.clears, check_named(finding.check).clears);
  EXPECT_EQ(finding.message, message_of(failure));
}

}  // namespace draftproof
