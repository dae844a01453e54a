// SPDX-License-Identifier: MIT
// All that a finding says, and whether a failure says all that it must.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "oracle/checks/check.h"

namespace draftproof {

/// The sentence and the facts.
inline std::string told(const Finding& finding) {
  std::string text = finding.message;
  if (finding.failure) {
    for (const std::string& fact : finding.failure->facts) text += "; " + fact;
  }
  return text;
}

/// A failure has both sides, the facts that part them, and the blame of its check; nothing else has one.
inline void expect_whole(const Finding& finding) {
  ASSERT_EQ(finding.failure.has_value(), finding.outcome == Outcome::fail) << finding.message;
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
