// SPDX-License-Identifier: MIT
// The replay of one round that is built by hand: a right one has no finding, and each wrong number the one that names
// it.
#include "oracle/spectrace/round_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace draftproof::spectrace::round_replay_test {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t total = Distribution::total;
constexpr std::uint64_t half = total / 2;

/// A round of rejection sampling behind the prompt 1, 2, 3. Of the draft tokens 1 and 2, which are proposed with
/// certainty and have p = 1/2 each, the first is accepted; max(p - q, 0) then draws token 4.
RoundEvent right_round() {
  RoundEvent round;
  round.sequence = 5;
  round.position = 3;
  round.has_draft_tokens = true;
  round.draft_tokens = {1, 2};
  round.accept_of_chain(1);
  round.next_from = NextFrom::residual;
  round.emitted = {1, 4};
  round.q_draft = std::vector<StatedNumber>(2, {.integer = total});
  round.q_before = std::vector<std::uint64_t>(2, 0);
  round.draft_u = std::vector<std::optional<StatedNumber>>(2);
  round.p_draft = std::vector<StatedNumber>(2, {.integer = half});
  round.accept_u = {StatedNumber{.integer = half - 1}, StatedNumber{.integer = half}};
  round.next = Draw{.token = 4, .u = 0, .bound = half, .before = 0, .weight = half, .p = half, .q = 0};
  return round;
}

SequenceEvent some_sequence() {
  SequenceEvent declared;
  declared.sequence = 5;
  declared.prompt = {1, 2, 3};
  declared.sampling.temperature = 1;
  declared.max_new_tokens = 8;
  declared.max_draft_tokens = 2;
  return declared;
}

Header some_header() {
  Header header;
  header.vocabulary = 6;
  header.total = total;
  return header;
}

/// A round on its own, with nothing but its line to compare it with.
struct Replayed {
  explicit Replayed(const RoundEvent& round, const SequenceEvent& declared = some_sequence())
      : sequence(declared, Findings(report, {})) {
    rows.open(sequence);
    coins.open(sequence);
    replay_round({header, target, round, sequence, rows, coins, evidence, report, Findings(report, {7, 5, 0, 3})});
  }
  std::vector<std::string> checks() const {
    std::vector<std::string> list;
    for (const TraceFinding& finding : report.findings) list.emplace_back(finding.check);
    return list;
  }

  Header header = some_header();
  TraceTarget target;
  TraceReport report;
  OpenSequence sequence;
  RowSource rows{header, target, report};
  Evidence evidence{header, target, rows, report};
  StatedCoins coins{header, evidence.games(), report};
};

TEST(RoundReplay, ARightRoundHasNoFindingAndItsTokensJoinTheText) {
  const Replayed replayed(right_round());
  EXPECT_THAT(replayed.checks(), ElementsAre());
  EXPECT_THAT(replayed.sequence.text, ElementsAre(1, 2, 3, 1, 4));
  EXPECT_EQ(replayed.sequence.rejected, 2);
  EXPECT_EQ(replayed.sequence.counts.drafted, 2);
  EXPECT_EQ(replayed.sequence.counts.accepted, 1);
  EXPECT_EQ(replayed.report.examined.tokens, 2);
}

TEST(RoundReplay, EachWrongNumberHasTheFindingThatNamesIt) {
  const std::pair<const char*, std::function<void(RoundEvent&)>> faults[] = {
      {"position", [](RoundEvent& round) { round.position = 4; }},
      {"kind", [](RoundEvent& round) { round.next_from = NextFrom::bonus; }},
      {"draft_draw", [](RoundEvent& round) { (*round.q_draft)[0].integer = 0; }},
      {"acceptance", [](RoundEvent& round) { (*round.accept_u)[0]->integer = half; }},
      {"acceptance", [](RoundEvent& round) { (*round.accept_u)[1]->integer = half - 1; }},
      {"conservation", [](RoundEvent& round) { round.emitted[0] = 3; }},
      {"residual", [](RoundEvent& round) { round.next->weight = half - 1; }},
      {"residual", [](RoundEvent& round) { round.next->u = half; }},
      {"q_row",
       [](RoundEvent& round) {
         round.next->p = half + 1;
         round.next->q = 1;
       }},
  };
  for (const auto& [check, change] : faults) {
    RoundEvent round = right_round();
    change(round);
    EXPECT_THAT(Replayed(round).checks(), ElementsAre(check)) << check;
  }
}

TEST(RoundReplay, AFindingNamesLineSequenceRoundAndPosition) {
  RoundEvent round = right_round();
  (*round.accept_u)[0]->integer = half;
  const Replayed replayed(round);
  ASSERT_EQ(replayed.report.findings.size(), 1U);
  const TraceFinding& finding = replayed.report.findings[0];
  EXPECT_EQ(finding.place.line, 7);
  EXPECT_EQ(finding.place.sequence, 5);
  EXPECT_EQ(finding.place.round, 0);
  EXPECT_EQ(finding.place.position, 3);
  EXPECT_EQ(finding.observed, "it was accepted");
}

TEST(RoundReplay, ATokenBehindAStopTokenIsAFinding) {
  SequenceEvent declared = some_sequence();
  declared.stop_tokens = {1};
  EXPECT_THAT(Replayed(right_round(), declared).checks(), ElementsAre("termination"));
}

TEST(RoundReplay, MoreTokensThanWereAskedForAreAFinding) {
  SequenceEvent declared = some_sequence();
  declared.max_new_tokens = 1;
  EXPECT_THAT(Replayed(right_round(), declared).checks(), ElementsAre("budget"));
}

TEST(RoundReplay, ACutRoundIsNoFindingBeforeItIsKnownThatTheTextGoesOn) {
  RoundEvent round = right_round();
  round.emitted = {1};
  const Replayed replayed(round);
  EXPECT_THAT(replayed.checks(), ElementsAre());
  ASSERT_TRUE(replayed.sequence.cut);
  EXPECT_STREQ(replayed.sequence.cut->check, "conservation");
}

TEST(RoundReplay, ValuesThatNoRightEngineStatesEndTheReplayOfTheRound) {
  RoundEvent round = right_round();
  (*round.accept_u)[0]->integer = half;
  round.faults.push_back({"number", "p_draft[0]", "nan"});
  EXPECT_THAT(Replayed(round).checks(), ElementsAre("number"));
}

TEST(RoundReplay, WhatTheLineDoesNotStateIsNamed) {
  RoundEvent round = right_round();
  round.accept_u.reset();
  const Replayed replayed(round);
  EXPECT_THAT(replayed.checks(), ElementsAre());
  EXPECT_TRUE(
      replayed.report.missing.contains("the trace does not state with which p, q and coin draft tokens were verified"));
}

TEST(RoundReplay, AGreedyRoundEmitsTheBestTokens) {
  SequenceEvent declared = some_sequence();
  declared.rule.kind = AcceptanceRule::greedy;
  RoundEvent round;
  round.sequence = 5;
  round.position = 3;
  round.has_draft_tokens = true;
  round.draft_tokens = {1};
  round.accept_of_chain(1);
  round.next_from = NextFrom::greedy;
  round.emitted = {1, 4};
  round.top_logits = {{1, 2, 5.0, 3.0}, {4, 2, 5.0, 3.0}};
  EXPECT_THAT(Replayed(round, declared).checks(), ElementsAre());
  round.emitted = {1, 2};
  EXPECT_THAT(Replayed(round, declared).checks(), ElementsAre("own_draw"));
  round.top_logits[0].first = 3;
  EXPECT_THAT(Replayed(round, declared).checks(), ElementsAre("acceptance", "own_draw"));
}

}  // namespace
}  // namespace draftproof::spectrace::round_replay_test
