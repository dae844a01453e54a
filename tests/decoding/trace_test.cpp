// SPDX-License-Identifier: MIT
#include "ref/decoding/trace.h"

#include <gtest/gtest.h>

namespace draftproof::trace_test {
namespace {

Round round_of(int draft_tokens, int accepted, int emitted_draft_tokens) {
  Round round;
  round.proposal.tokens.assign(static_cast<std::size_t>(draft_tokens), 1);
  round.verdict = {accepted, 0};
  round.accepted = emitted_draft_tokens;
  return round;
}

TEST(Trace, CountsFollowFromTheRounds) {
  Trace trace;
  trace.rounds = {round_of(0, 0, 0), round_of(4, 4, 4), round_of(4, 1, 1), round_of(3, 0, 0), round_of(2, 2, 2)};
  const Statistics counts = recounted(trace);
  EXPECT_EQ(counts.rounds, 5);
  EXPECT_EQ(counts.iterations, 4) << "a round without draft tokens is none";
  EXPECT_EQ(counts.drafted, 13);
  EXPECT_EQ(counts.accepted, 7);
  EXPECT_EQ(counts.mismatches, 2);
  EXPECT_EQ(counts.all_accepted, 2);
  EXPECT_EQ(counts.batched, 4);
  EXPECT_EQ(counts.serial, 0);
  EXPECT_DOUBLE_EQ(counts.acceptance(), 7.0 / 13);
  EXPECT_DOUBLE_EQ(counts.average_accepted(), 7.0 / 4);
  trace.execution.verification = Verification::serial;
  EXPECT_EQ(recounted(trace).serial, 4);
  EXPECT_EQ(recounted(trace).batched, 0);
}

TEST(Trace, ATreeIsAllAcceptedWhenTheLastAcceptedTokenHasNoChildren) {
  Trace trace;
  for (const Verdict& verdict : {Verdict{2, 0, 1}, {1, 0, 0}, {1, 0, 2}, {0, 0, -1}}) {
    trace.rounds.push_back(round_of(3, 0, verdict.accepted));
    trace.rounds.back().proposal.depths = {0, 1, 0};
    trace.rounds.back().verdict = verdict;
  }
  EXPECT_EQ(recounted(trace).all_accepted, 2) << "the whole branch, and its sibling without children";
  EXPECT_EQ(recounted(trace).mismatches, 2);
  EXPECT_EQ(recounted(trace).accepted, 4);
}

TEST(Trace, RatiosOfNothingAreZero) {
  const Trace trace;
  EXPECT_EQ(trace.statistics.acceptance(), 0);
  EXPECT_EQ(trace.statistics.average_accepted(), 0);
  EXPECT_EQ(trace.tokens_per_round(), 0);
}

TEST(Trace, TokensPerRoundIsTheOutputOverTheRounds) {
  Trace trace;
  trace.output = {1, 2, 3};
  trace.rounds.resize(2);
  EXPECT_DOUBLE_EQ(trace.tokens_per_round(), 1.5);
}

TEST(Trace, ValuesHaveNames) {
  EXPECT_STREQ(name_of(Verification::batched), "batched");
  EXPECT_STREQ(name_of(Verification::serial), "serial");
  EXPECT_STREQ(name_of(Finish::unfinished), "unfinished");
  EXPECT_STREQ(name_of(Finish::stop), "stop");
  EXPECT_STREQ(name_of(Finish::length), "length");
  EXPECT_STREQ(name_of(Finish::cancelled), "cancelled");
}

}  // namespace
}  // namespace draftproof::trace_test
