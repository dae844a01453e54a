// SPDX-License-Identifier: MIT
#include "ref/drafts/scripted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ref/models/hash.h"
#include "tests/drafts/support.h"

namespace draftproof::scripted_test {
namespace {

using testing::ElementsAre;

/// Rows whose logits decrease from token 0 on: token 3 is the least likely, and none is impossible.
TableModel falling() {
  return TableModel(4, [](std::span<const Token>) { return std::vector<float>{3, 2, 1, 0}; });
}

/// Returns the number of draft tokens of each round.
std::vector<int> lengths(const char* script, int limit, int rounds) {
  TableModel target = falling();
  ScriptedDraft draft(target, 64, 4, script);
  PhiloxSource random(3);
  std::vector<int> list;
  const std::vector<Token> text = {1};
  for (int i = 0; i < rounds; ++i) list.push_back(propose(draft, text, limit, {}, random).size());
  return list;
}

TEST(ScriptedDraft, HasOneWordPerRoundAndStartsOverAfterTheLast) {
  EXPECT_THAT(lengths("++-", 4, 3), ElementsAre(3, 3, 3));
  EXPECT_THAT(lengths("-/-/++", 4, 5), ElementsAre(1, 1, 2, 1, 1));
  EXPECT_THAT(lengths("++//", 4, 6), ElementsAre(2, 0, 0, 2, 0, 0));
  EXPECT_THAT(lengths("/+", 4, 3), ElementsAre(0, 1, 0));
  EXPECT_THAT(lengths("", 4, 2), ElementsAre(0, 0));
  EXPECT_THAT(lengths("++++", 2, 2), ElementsAre(2, 2)) << "never more than it was asked for";
}

TEST(ScriptedDraft, RewindsAndAddsTheMostLikelyTokenThatIsMissing) {
  TableModel target = falling();
  PhiloxSource random(3);
  const std::vector<Token> text = {1};
  const auto drafted = [&](const char* script, int limit = 8) {
    ScriptedDraft draft(target, 64, 8, script);
    return propose(draft, text, limit, {}, random);
  };
  const Proposal tree = drafted("**<*<<*-");
  EXPECT_THAT(tree.tokens, ElementsAre(0, 0, 1, 1, 3));
  EXPECT_THAT(tree.depths, ElementsAre(0, 1, 1, 0, 1));
  EXPECT_THAT(drafted("*<0<2").tokens, ElementsAre(0, 2)) << "what is there already is not made again";
  EXPECT_THAT(drafted("*<*<*<*<*").tokens, ElementsAre(0, 1, 2, 3)) << "nothing is left to name";
  EXPECT_THAT(drafted("*<*<*", 2).tokens, ElementsAre(0, 1)) << "never more than it was asked for";
  const Proposal beside = drafted("*&**&-<<2");
  EXPECT_THAT(beside.tokens, ElementsAre(0, 0, 3, 1, 2));
  EXPECT_THAT(beside.depths, ElementsAre(0, 1, 1, 0, 0));
  EXPECT_THAT(drafted("&1*").tokens, ElementsAre(1, 0)) << "beside nothing is a draft token like any other";
  EXPECT_THAT(drafted("<<*<<<1").tokens, ElementsAre(0, 1)) << "no further back than to the anchor";
}

TEST(ScriptedDraft, EveryLetterProposesItsTokenAndRecordsItsQ) {
  TableModel target = falling();
  const Sampling sampling{.temperature = 0.8F, .top_k = 3};
  const std::vector<float> row = {3, 2, 1, 0};
  const std::vector<Token> text = {1};
  PhiloxSource random(3);
  const auto q_of = [&](const char* script) {
    ScriptedDraft draft(target, 64, 4, script);
    const Proposal proposal = propose(draft, text, 4, sampling, random, Purpose::draft);
    expect_redrawn(proposal, 1, Purpose::draft, 0, random);
    return proposal.drawn_from.at(0);
  };
  const auto q = [&](const std::vector<float>& logits) { return compute_distribution(logits, sampling, {text, {}}); };
  EXPECT_EQ(q_of("+"), q(row));
  EXPECT_EQ(q_of("-"), Distribution::point(3));
  EXPECT_EQ(q_of("~"), q({0, 3, 2, 1}));
  EXPECT_EQ(q_of("?"), q({0, 0, 0, 0}));
  EXPECT_EQ(q_of("0"), Distribution::point(0));
  EXPECT_EQ(q_of("2"), Distribution::point(2));
}

TEST(ScriptedDraft, ContinuesFromItsOwnDraftTokens) {
  const auto target = make_hash_model({.vocabulary = 8, .levels = 8});
  const std::vector<Token> text = {1, 2, 3};
  ScriptedDraft draft(*target, 64, 4, "5++");
  draft.observe(std::span(text).first(2), {});
  PhiloxSource random(3);
  const Sampling sampling{.temperature = 1};
  const Proposal proposal = propose(draft, text, 4, sampling, random, Purpose::draft);
  ASSERT_EQ(proposal.size(), 3);
  ASSERT_EQ(proposal.tokens[0], 5);
  Outputs outputs;
  const auto cache = target->new_cache(8, 8);
  Transaction transaction = cache->begin(5);
  const std::vector<Token> read = {1, 2, 3, 5, proposal.tokens[1]};
  forward_alone(*target, {.cache = cache.get(), .tokens = read, .logits_from = 3}, outputs);
  for (int i = 0; i < 2; ++i) {
    const std::vector<Token> before(read.begin(), read.begin() + 4 + i);
    EXPECT_EQ(proposal.drawn_from[i + 1], compute_distribution(outputs.logits_row(i, 8), sampling, {before, {}}));
  }
}

TEST(ScriptedDraft, DigestDependsOnTheTextAndNotOnThePlaceInTheScript) {
  const auto target = make_hash_model({.vocabulary = 8});
  const std::vector<Token> text = {1, 2, 3};
  ScriptedDraft asked(*target, 64, 4, "~~/+/-");
  ScriptedDraft silent(*target, 64, 4, "~~/+/-");
  PhiloxSource random(3);
  asked.observe(std::span(text).first(2), {});
  silent.observe(std::span(text).first(2), {});
  for (int i = 0; i < 4; ++i) propose(asked, text, 3, {.temperature = 1}, random);
  EXPECT_EQ(asked.digest(), silent.digest());
}

TEST(ScriptedDraftDeathTest, UnknownLettersAndTokensAbort) {
  TableModel target = falling();
  for (const char* script : {"x", "+ +", "4", "9", "+/+a"}) {
    EXPECT_DEATH(ScriptedDraft(target, 64, 4, script), "a script contains only the letters") << script;
  }
}

}  // namespace
}  // namespace draftproof::scripted_test
