// SPDX-License-Identifier: MIT
// Bets on the tokens of decoders of the zoo, text by text with seeds of their own, as a campaign multiplies them: right
// ones raise no more alarms than promised under any rule, wrong ones do although no text does alone.
#include "tools/token_bets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "oracle/sequential/pooled_evidence.h"
#include "zoo/zoo.h"
#include "zoo/zoo_subject.h"

namespace draftproof::test::token_bets_test {
namespace {

struct PooledTexts {
  PooledEvidence evidence;
  bool alone = false;  // some text raises the alarm by itself
};

/// Decodes texts until there is an alarm, `texts` at most.
PooledTexts texts_of(const zoo::Parts& parts, const Rule& rule, int texts, std::uint64_t first_seed, double alpha) {
  static const Effort& effort = effort_by_name("quick");
  zoo::ZooSubject subject({.vocabulary = 6, .seed = first_seed % 5}, parts);
  Request request;
  request.prompt = {1, 2, 3, 1};
  request.sampling.temperature = 1;
  request.max_new_tokens = 12;
  Variation variation;
  variation.draft = "perturbed";
  variation.draft_max = 3;
  variation.rule = &rule;
  PooledTexts all = {PooledEvidence(alpha)};
  for (int text = 0; text < texts && !all.evidence.alarm(); ++text) {
    Trial trial(subject, request, first_seed + static_cast<std::uint64_t>(text), {variation}, effort);
    const TokenTest bets = bet_on_tokens(trial, trial.runs.front());
    EXPECT_EQ(bets.tokens, 12);
    all.evidence.add(bets.by_bet, bets.tokens);
    all.alone = all.alone || bets.e_value * alpha >= 1;
  }
  return all;
}

TEST(TokenBets, OfARightDecoderRaiseNoMoreAlarmsThanPromisedUnderAnyRule) {
  constexpr int campaigns = 40;
  for (const Rule* const rule : {&matching, &rejection, &block}) {
    int alarms = 0;
    for (std::uint64_t campaign = 0; campaign < campaigns; ++campaign) {
      alarms += texts_of({}, *rule, 8, 1000 * campaign, 0.05).evidence.alarm();
    }
    EXPECT_LE(alarms, campaigns / 20) << rule->name;
  }
}

TEST(TokenBets, OfWrongDecodersRaiseAnAlarmTogetherWhereNoTextDoesAlone) {
  for (const char* const id : {"A01", "A08", "A10"}) {
    const zoo::Mutant* const mutant = zoo::find(id);
    ASSERT_NE(mutant, nullptr);
    const PooledTexts found = texts_of(mutant->parts, rejection, 600, 5, 1e-9);
    EXPECT_TRUE(found.evidence.alarm()) << id << " " << mutant->name << ": " << found.evidence.describe();
    EXPECT_FALSE(found.alone) << id;
  }
}

}  // namespace
}  // namespace draftproof::test::token_bets_test
