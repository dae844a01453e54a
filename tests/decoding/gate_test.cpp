// SPDX-License-Identifier: MIT
#include "ref/decoding/gate.h"

#include <gtest/gtest.h>

#include <string>

namespace draftproof::gate_test {
namespace {

TEST(Gate, ReturnsTheFirstReasonThatAppliesInTheDocumentedOrder) {
  GateInputs inputs;
  inputs.logprobs = true;
  inputs.draft_needs_target = true;
  EXPECT_EQ(gate(inputs), Gate::no_draft);
  inputs.draft_given = true;
  EXPECT_EQ(gate(inputs), Gate::target_without_taps);
  inputs.target_has_taps = true;
  EXPECT_EQ(gate(inputs), Gate::target_embeddings_missing);
  inputs.target_has_embeddings = true;
  EXPECT_EQ(gate(inputs), Gate::logprobs_requested);
  inputs.logprobs = false;
  EXPECT_EQ(gate(inputs), Gate::open);
}

TEST(Gate, IgnoresTheTargetForADraftThatDoesNotNeedIt) {
  GateInputs inputs;
  inputs.draft_given = true;
  EXPECT_EQ(gate(inputs), Gate::open);
  inputs.logprobs = true;
  EXPECT_EQ(gate(inputs), Gate::logprobs_requested);
}

TEST(Gate, ReturnsTheFirstMissingRequirementForAllInputs) {
  for (int bits = 0; bits < 32; ++bits) {
    const auto bit = [&](int i) { return (bits >> i & 1) != 0; };
    const GateInputs inputs{.draft_given = bit(0),
                            .draft_needs_target = bit(1),
                            .target_has_taps = bit(2),
                            .target_has_embeddings = bit(3),
                            .logprobs = bit(4)};
    const Gate expected = !bit(0)             ? Gate::no_draft
                          : bit(1) && !bit(2) ? Gate::target_without_taps
                          : bit(1) && !bit(3) ? Gate::target_embeddings_missing
                          : bit(4)            ? Gate::logprobs_requested
                                              : Gate::open;
    EXPECT_EQ(gate(inputs), expected) << bits;
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
