// SPDX-License-Identifier: MIT
// What a draft held and was asked for, without any replay.
#include "oracle/spectrace/draft_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace draftproof::spectrace::draft_watch_test {
namespace {

/// The draft of one sequence, whose next round begins at position 10.
struct Watched {
  void hold(std::int64_t held, std::int64_t dropped = 0) {
    RoundEvent round;
    round.draft_held = std::vector<std::int64_t>{held};
    watch.expect_held(round, dropped, findings);
  }
  void propose(int asked, int drafted) {
    RoundEvent round;
    round.has_draft_tokens = true;
    round.draft_asked = std::vector<int>{asked};
    round.draft_tokens.assign(static_cast<std::size_t>(drafted), 1);
    watch.expect_asked(round, 0, findings);
  }

  TraceReport report;
  Findings findings{report, {.position = 10}};
  DraftWatch watch{SequenceEvent{}, findings};
};

TEST(DraftWatch, ADraftHoldsTheTextBeforeTheAnchor) {
  Watched draft;
  draft.hold(9);
  EXPECT_TRUE(draft.report.slower.empty());
  draft.hold(8);
  ASSERT_EQ(draft.report.slower.size(), 1U);
  EXPECT_STREQ(draft.report.slower[0].check, "draft_held");
  EXPECT_TRUE(draft.report.findings.empty()) << "it costs speed only";
}

TEST(DraftWatch, AFaultThatMakesAllLaterRoundsWrongIsFoundOnce) {
  Watched draft;
  for (int round = 0; round < 5; ++round) draft.hold(8);
  EXPECT_EQ(draft.report.slower.size(), 1U);
  EXPECT_EQ(draft.report.looked["draft_held"], 5);
}

TEST(DraftWatch, AfterAContextShiftADraftHoldsWhatIsLeftOrTheWholeText) {
  Watched draft;
  draft.hold(9, 4);
  draft.hold(5, 4);
  EXPECT_TRUE(draft.report.slower.empty());
  draft.hold(6, 4);
  EXPECT_EQ(draft.report.slower.size(), 1U);
}

TEST(DraftWatch, ADraftProposesNoMoreThanItWasAskedFor) {
  Watched draft;
  draft.propose(3, 3);
  EXPECT_TRUE(draft.report.slower.empty());
  draft.propose(3, 4);
  ASSERT_EQ(draft.report.slower.size(), 1U);
  EXPECT_STREQ(draft.report.slower[0].check, "draft_asked");
}

TEST(DraftWatch, CostsThatCannotBeUsedAreNamed) {
  TraceReport report;
  SequenceEvent declared;
  declared.draft_costs.emplace();
  const DraftWatch watch(declared, Findings(report, {}));
  EXPECT_THAT(report.unread, testing::ElementsAre(testing::HasSubstr("field draft_costs is not checked")));
}

}  // namespace
}  // namespace draftproof::spectrace::draft_watch_test
