// SPDX-License-Identifier: MIT
#include "ref/decoding/gate.h"

#include <gtest/gtest.h>

#include <string>

namespace draftproof::gate_test {
namespace {

TEST(Gate, ReturnsTheFirstReasonThatAppliesInTheDocumentedOrder) {
  GateQuestion question;
  question.logprobs = true;
  question.draft_needs_target = true;
  EXPECT_EQ(gate(question), Gate::no_draft);
  question.draft_given = true;
  EXPECT_EQ(gate(question), Gate::target_without_taps);
  question.target_has_taps = true;
  EXPECT_EQ(gate(question), Gate::target_embeddings_missing);
  question.target_has_embeddings = true;
  EXPECT_EQ(gate(question), Gate::logprobs_requested);
  question.logprobs = false;
  EXPECT_EQ(gate(question), Gate::open);
}

TEST(Gate, IgnoresTheTargetForADraftThatDoesNotNeedIt) {
  GateQuestion question;
  question.draft_given = true;
  EXPECT_EQ(gate(question), Gate::open);
  question.logprobs = true;
  EXPECT_EQ(gate(question), Gate::logprobs_requested);
}

TEST(Gate, ReturnsTheFirstMissingRequirementForEveryQuestion) {
  for (int bits = 0; bits < 32; ++bits) {
    const auto bit = [&](int i) { return (bits >> i & 1) != 0; };
    const GateQuestion question{.draft_given = bit(0), .draft_needs_target = bit(1), .target_has_taps = bit(2),
                                .target_has_embeddings = bit(3), .logprobs = bit(4)};
    const Gate expected = !bit(0)              ? Gate::no_draft
                          : bit(1) && !bit(2) ? Gate::target_without_taps
                          : bit(1) && !bit(3) ? Gate::target_embeddings_missing
                          : bit(4)             ? Gate::logprobs_requested
                                               : Gate::open;
    EXPECT_EQ(gate(question), expected) << bits;
  }
}

TEST(Gate, HasTheNamesUsedInReports) {
  EXPECT_STREQ(name_of(Gate::open), "open");
  EXPECT_STREQ(name_of(Gate::no_draft), "no_draft");
  EXPECT_STREQ(name_of(Gate::target_without_taps), "target_without_taps");
  EXPECT_STREQ(name_of(Gate::target_embeddings_missing), "target_embeddings_missing");
  EXPECT_STREQ(name_of(Gate::logprobs_requested), "logprobs_requested");
}

}  // namespace
}  // namespace draftproof::gate_test
