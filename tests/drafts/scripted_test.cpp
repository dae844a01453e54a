// SPDX-License-Identifier: MIT
#include "ref/drafts/scripted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ref/models/hash.h"
#include "tests/drafts/support.h"

namespace draftproof {
namespace {

using testing::ElementsAre;

/// Rows that fall from token 0 on: token 3 is the least likely, and none is impossible.
LawModel falling() {
  return LawModel(4, [](std::span<const Token>) { return std::vector<float>{3, 2, 1, 0}; });
}

/// How many guesses each round makes.
std::vector<int> lengths(const char* script, int limit, int rounds) {
  LawModel target = falling();
  ScriptedDraft draft(target, 64, 4, script);
  SeededChance chance(3);
  std::vector<int> list;
  const std::vector<Token> text = {1};
  for (int i = 0; i < rounds; ++i) list.push_back(propose(draft, text, limit, {}, chance).size());
  return list;
}

TEST(Scripted, HasOneWordPerRoundAndBeginsAgainAfterTheLast) {
  EXPECT_THAT(lengths("++-", 4, 3), ElementsAre(3, 3, 3));
  EXPECT_THAT(lengths("-/-/++", 4, 5), ElementsAre(1, 1, 2, 1, 1));
  EXPECT_THAT(lengths("++//", 4, 6), ElementsAre(2, 0, 0, 2, 0, 0));
  EXPECT_THAT(lengths("/+", 4, 3), ElementsAre(0, 1, 0));
  EXPECT_THAT(lengths("", 4, 2), ElementsAre(0, 0));
  EXPECT_THAT(lengths("++++", 2, 2), ElementsAre(2, 2)) << "never more than it was asked for";
}

TEST(Scripted, GoesBackAndNamesTheBestThatIsNotThere) {
  LawModel target = falling();
  SeededChance chance(3);
  const std::vector<Token> text = {1};
  const auto guessed = [&](const char* script, int limit = 8) {
    ScriptedDraft draft(target, 64, 8, script);
    return propose(draft, text, limit, {}, chance);
  };
  const Proposal tree = guessed("**<*<<*-");
  EXPECT_THAT(tree.tokens, ElementsAre(0, 0, 1, 1, 3));
  EXPECT_THAT(tree.depths, ElementsAre(0, 1, 1, 0, 1));
  EXPECT_THAT(guessed("*<0<2").tokens, ElementsAre(0, 2)) << "what is there already is not made again";
  EXPECT_THAT(guessed("*<*<*<*<*").tokens, ElementsAre(0, 1, 2, 3)) << "nothing is left to name";
  EXPECT_THAT(guessed("*<*<*", 2).tokens, ElementsAre(0, 1)) << "never more than it was asked for";
  const Proposal beside = guessed("*&**&-<<2");
  EXPECT_THAT(beside.tokens, ElementsAre(0, 0, 3, 1, 2));
  EXPECT_THAT(beside.depths, ElementsAre(0, 1, 1, 0, 0));
  EXPECT_THAT(guessed("&1*").tokens, ElementsAre(1, 0)) << "beside nothing is a guess like any other";
  EXPECT_THAT(guessed("<<*<<<1").tokens, ElementsAre(0, 1)) << "no further back than to the anchor";
}

TEST(Scripted, EveryLetterGuessesAsItSaysAndStatesTheQThatWasDrawnFrom) {
  LawModel target = falling();
  const Sampling sampling{.temperature = 0.8F, .top_k = 3};
  const std::vector<float> row = {3, 2, 1, 0};
  const std::vector<Token> text = {1};
  SeededChance chance(3);
  const auto q_of = [&](const char* script) {
    ScriptedDraft draft(target, 64, 4, script);
    const Proposal proposal = propose(draft, text, 4, sampling, chance, Purpose::draft);
    expect_redrawn(proposal, 1, Purpose::draft, 0, chance);
    return proposal.drawn_from.at(0);
  };
  const auto q = [&](const std::vector<float>& logits) { return distribution_of(logits, sampling, {text, {}}); };
  EXPECT_EQ(q_of("+"), q(row));
  EXPECT_EQ(q_of("-"), Distribution::point(3));
  EXPECT_EQ(q_of("~"), q({0, 3, 2, 1}));
  EXPECT_EQ(q_of("?"), q({0, 0, 0, 0}));
  EXPECT_EQ(q_of("0"), Distribution::point(0));
  EXPECT_EQ(q_of("2"), Distribution::point(2));
}

TEST(Scripted, GoesOnFromItsOwnGuesses) {
  const auto target = make_hash_model({.vocabulary = 8, .levels = 8});
  const std::vector<Token> text = {1, 2, 3};
  ScriptedDraft draft(*target, 64, 4, "5++");
  draft.observe(std::span(text).first(2), {});
  SeededChance chance(3);
  const Sampling sampling{.temperature = 1};
  const Proposal proposal = propose(draft, text, 4, sampling, chance, Purpose::draft);
  ASSERT_EQ(proposal.size(), 3);
  ASSERT_EQ(proposal.tokens[0], 5);
  Outputs outputs;
  const auto cache = target->new_cache(8, 8);
  Transaction window = cache->begin(5);
  const std::vector<Token> read = {1, 2, 3, 5, proposal.tokens[1]};
  target->forward({.tokens = read, .logits_from = 3}, *cache, outputs);
  for (int i = 0; i < 2; ++i) {
    const std::vector<Token> before(read.begin(), read.begin() + 4 + i);
    EXPECT_EQ(proposal.drawn_from[static_cast<std::size_t>(i + 1)],
              distribution_of(outputs.logits_row(i, 8), sampling, {before, {}}));
  }
}

TEST(Scripted, RemembersTheTextAndNotWhereTheScriptIs) {
  const auto target = make_hash_model({.vocabulary = 8});
  const std::vector<Token> text = {1, 2, 3};
  ScriptedDraft asked(*target, 64, 4, "~~/+/-");
  ScriptedDraft silent(*target, 64, 4, "~~/+/-");
  SeededChance chance(3);
  asked.observe(std::span(text).first(2), {});
  silent.observe(std::span(text).first(2), {});
  for (int i = 0; i < 4; ++i) propose(asked, text, 3, {.temperature = 1}, chance);
  EXPECT_EQ(asked.digest(), silent.digest());
}

TEST(ScriptedDeathTest, RefusesLettersAndTokensThatThereAreNot) {
  LawModel target = falling();
  for (const char* script : {"x", "+ +", "4", "9", "+/+a"}) {
    EXPECT_DEATH(ScriptedDraft(target, 64, 4, script), "a script is of its letters") << script;
  }
}

}  // namespace
}  // namespace draftproof
