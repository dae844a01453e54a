// SPDX-License-Identifier: MIT
// What is bet on and what is paid, decision by decision, without any replay.
#include "oracle/spectrace/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace draftproof::spectrace::evidence_test {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr std::uint64_t total = Distribution::total;

Distribution one_of(Token a, Token b) {
  const std::vector<Token> tokens = {a, b};
  const std::vector<std::uint64_t> weights = {total / 2, total / 2};
  return Distribution::exact(tokens, weights);
}

KnownRow exactly(const Distribution& p) {
  KnownRow known;
  known.p = p;
  return known;
}

KnownRow nearly(const Distribution& p, double slack) {
  KnownRow known;
  known.near = NearbyDistribution{p, slack, p.tokens()};
  return known;
}

/// The bets on one sequence, whose next round begins at position 3.
struct Bets {
  explicit Bets(AcceptanceRule rule = AcceptanceRule::rejection, double slack = 0) : target(with_slack(slack)) {
    sequence.declared.rule.kind = rule;
    sequence.decided_end = 4;
  }
  static Header some_header() {
    Header header;
    header.vocabulary = 6;
    header.total = total;
    return header;
  }
  static TraceTarget with_slack(double slack) {
    TraceTarget target;
    target.slack = slack;
    return target;
  }
  static SequenceEvent some_sequence() {
    SequenceEvent declared;
    declared.prompt = {1, 2, 3};
    declared.sampling.temperature = 1;
    return declared;
  }
  void emit(Token token, const KnownRow& known) {
    RoundEvent round;
    round.emitted = {token};
    evidence.bet_on_token(sequence, round, 0, known, {}, Findings(report, place));
  }
  /// Returns how many tokens were bet on.
  long tokens() {
    evidence.report();
    return report.token_test ? report.token_test->tokens : 0;
  }

  TracePlace place{.line = 2, .position = 3};
  Header header = some_header();
  TraceTarget target;
  TraceReport report;
  OpenSequence sequence{some_sequence(), Findings(report, {})};
  RowSource rows{header, target, report};
  Evidence evidence{header, target, rows, report};
};

TEST(Evidence, ATokenOfAKnownRowIsBetOn) {
  Bets bets;
  bets.emit(1, exactly(one_of(1, 4)));
  EXPECT_EQ(bets.tokens(), 1);
  EXPECT_TRUE(bets.report.findings.empty());
}

TEST(Evidence, ATokenWithoutWeightInItsRowIsAFinding) {
  Bets bets;
  bets.emit(2, exactly(one_of(1, 4)));
  ASSERT_EQ(bets.report.findings.size(), 1U);
  EXPECT_STREQ(bets.report.findings[0].check, "distribution");
  EXPECT_EQ(bets.report.findings[0].place.position, 3);
}

TEST(Evidence, ARowOfOneTokenProvesItsTokenAndIsNoBet) {
  Bets bets;
  bets.emit(4, exactly(Distribution::point(4)));
  EXPECT_EQ(bets.tokens(), 0);
  EXPECT_TRUE(bets.report.findings.empty());
}

TEST(Evidence, ATokenOfAnUnknownRowIsNamedWhereABetWouldHaveToReplaceADecision) {
  Bets bets;
  bets.report.missing.insert("some decision");
  bets.emit(1, {});
  EXPECT_EQ(bets.tokens(), 0);
  EXPECT_THAT(bets.report.unproved, Contains(HasSubstr("p is not known of 1 tokens")));
}

TEST(Evidence, WhatTokensAreBetOnWithIsChosenBeforeTheToken) {
  Bets bets(AcceptanceRule::rejection, 1e-3);
  bets.emit(1, nearly(one_of(1, 4), 1e-3));
  EXPECT_EQ(bets.tokens(), 1);
  bets.emit(1, exactly(one_of(1, 4)));
  EXPECT_EQ(bets.tokens(), 1) << "it was to be the target's row";
  bets.emit(1, exactly(one_of(1, 4)));
  EXPECT_EQ(bets.tokens(), 2) << "another basis from the next token on";
}

TEST(Evidence, ARowWithTooMuchSlackIsNotBetOn) {
  Bets bets(AcceptanceRule::rejection, 0.3);
  bets.emit(1, nearly(one_of(1, 4), 0.3));
  EXPECT_EQ(bets.tokens(), 0);
  EXPECT_THAT(bets.report.unread, Contains(HasSubstr("there is no bet on 1 tokens")));
}

TEST(Evidence, TokensOfALossyRuleAreTestedApart) {
  Bets bets(AcceptanceRule::lossy);
  bets.emit(1, exactly(one_of(1, 4)));
  EXPECT_EQ(bets.tokens(), 1);
  EXPECT_TRUE(bets.report.token_test->of_lossy);
}

TEST(Evidence, AGreedyTokenBelowTheBestIsOpenUntilAFlagAdmitsIt) {
  const std::vector<double> logits = {0, 2, 1.9, 0, 0, 0};
  for (const double tie : {0.0, 0.2}) {
    Bets bets(AcceptanceRule::greedy);
    bets.target.tie = tie;
    KnownRow known;
    known.best.emplace(logits, bets.sequence.declared.sampling, bets.sequence.text);
    bets.emit(2, known);
    bets.evidence.finish(Findings(bets.report, bets.place));
    EXPECT_TRUE(bets.report.findings.empty());
    EXPECT_EQ(bets.report.unproved.size(), tie > 0 ? 0U : 1U);
    EXPECT_EQ(bets.report.advice.starts_with("--tie"), tie == 0);
  }
}

TEST(Evidence, AnAcceptanceIsBetOnWhereItDecidedTheText) {
  Bets bets;
  RoundEvent round;
  round.draft_tokens = {1};
  round.accept_of_chain(1);
  round.p_draft = std::vector<StatedNumber>{{.integer = total / 4}};
  round.q_draft = std::vector<StatedNumber>{{.integer = total / 2}};
  bets.sequence.decided_end = 3;
  bets.evidence.bet_on_acceptance(bets.sequence, round, 0, {}, bets.place);
  EXPECT_TRUE(bets.evidence.games().others().empty());
  bets.sequence.decided_end = 4;
  bets.evidence.bet_on_acceptance(bets.sequence, round, 0, {}, bets.place);
  ASSERT_EQ(bets.evidence.games().others().size(), 1U);
  EXPECT_EQ(bets.evidence.games().others()[0].name, "acceptance");
}

TEST(Evidence, WhatIsStatedOnSomeLinesOnlyIsNamedWithTheLinesThatLackIt) {
  Bets bets;
  RoundEvent round;
  round.draft_tokens = {1};
  round.accept_of_chain(0);
  bets.evidence.bet_on_draft(AcceptanceRule::rejection, round, 0, bets.place);
  round.q_rows = {one_of(1, 4)};
  bets.evidence.bet_on_draft(AcceptanceRule::rejection, round, 0, {.line = 3});
  bets.evidence.report();
  EXPECT_THAT(bets.report.unread, Contains(HasSubstr("rows of q are not stated on line 2:")));
}

}  // namespace
}  // namespace draftproof::spectrace::evidence_test
