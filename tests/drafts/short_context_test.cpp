// SPDX-License-Identifier: MIT
#include "ref/drafts/short_context.h"

#include <gtest/gtest.h>

#include "ref/drafts/chain.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/none.h"
#include "ref/models/hash.h"
#include "tests/drafts/support.h"

namespace draftproof::short_context_test {
namespace {

constexpr int reach = 20;
constexpr int max = 4;
constexpr Sampling sampling = {.temperature = 1};

/// Drafts over a model that was trained for 20 positions.
class TrainedFor20 final : public ModelDrafter {
 public:
  using ModelDrafter::ModelDrafter;
  std::unique_ptr<Draft> open(int capacity, int draft_max) override {
    REQUIRE(capacity <= draftproof::short_context_test::reach, "the text fits");
    return ModelDrafter::open(capacity, draft_max);
  }
  int reach() const override { return draftproof::short_context_test::reach; }
};

class NoDrafter final : public Drafter {
  std::unique_ptr<Draft> open(int, int) override { return std::make_unique<NoDraft>(); }
};

struct ShortContext : ::testing::Test {
  std::unique_ptr<Model> model = make_hash_model({.vocabulary = 7});
  std::unique_ptr<Drafter> drafter = for_texts_of_any_length(std::make_unique<TrainedFor20>(*model));
  std::vector<Token> text = some_text(60);
  PhiloxSource random{3};

  std::span<const Token> first(int size) const { return std::span(text).first(static_cast<std::size_t>(size)); }
};

TEST_F(ShortContext, ADrafterWhoseDraftsKeepNoCacheIsLeftAsItIs) {
  auto alone = std::make_unique<NoDrafter>();
  Drafter* const address = alone.get();
  EXPECT_EQ(for_texts_of_any_length(std::move(alone)).get(), address);
}

TEST_F(ShortContext, AtEveryLengthOfTheTextProposesTheDraftsOwnTokensThatFitAndNothingBehindThem) {
  for (int length = 1; length <= 40; ++length) {
    const auto draft = drafter->open(80, max);
    if (length > 1) draft->observe(first(length - 1), {});
    const Proposal proposal = propose(*draft, first(length), max, sampling, random);
    const int room = std::max(0, reach - length);
    ASSERT_EQ(proposal.size(), std::min(max, room)) << length;
    if (room == 0) continue;
    ModelDraft unlimited(*model, 80, max);
    if (length > 1) unlimited.observe(first(length - 1), {});
    const Proposal expected = propose(unlimited, first(length), std::min(max, room), sampling, random);
    ASSERT_EQ(proposal.tokens, expected.tokens) << length;
  }
}

TEST_F(ShortContext, WhatItKeepsFollowsFromTheTextHoweverTheTextWasDivided) {
  for (std::uint32_t number = 0; number < 200; ++number) {
    const int length = 1 + static_cast<int>(number % 40);
    const auto whole = drafter->open(80, max);
    whole->observe(first(length), {});
    const auto parts = drafter->open(80, max);
    int done = 0;
    for (const int run : cuts(length, 1 + static_cast<int>(number % 7), number)) {
      propose(*parts, first(done + 1), max, sampling, random);
      parts->observe(std::span(text).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(run)), {});
      done += run;
    }
    ASSERT_EQ(parts->digest(), whole->digest()) << length;
    ASSERT_EQ(parts->context() == nullptr, length > reach) << length;
    ASSERT_EQ(parts->needs_no_snapshot(), length > reach) << length;
    ASSERT_EQ(parts->positions().front().held + parts->positions().front().unread, length > reach ? 0 : length);
  }
}

TEST_F(ShortContext, BeginsAnewAfterItHasForgottenATextThatOutgrewIt) {
  const auto draft = drafter->open(80, max);
  draft->observe(first(30), {});
  draft->forget();
  draft->observe(first(9), {});
  const auto fresh = drafter->open(80, max);
  fresh->observe(first(9), {});
  EXPECT_EQ(draft->digest(), fresh->digest());
  EXPECT_EQ(propose(*draft, first(10), max, sampling, random).tokens,
            propose(*fresh, first(10), max, sampling, random).tokens);
}

TEST_F(ShortContext, TextsOfAllLengthsAreServedTogetherAsEachIsAlone) {
  const std::vector<int> lengths = {1, 17, 18, 21, 22, 40};
  std::vector<std::unique_ptr<Draft>> drafts;
  std::vector<ObserveJob> told;
  for (const int length : lengths) {
    drafts.push_back(drafter->open(80, max));
    if (length > 1) told.push_back({drafts.back().get(), first(length - 1), {}});
  }
  drafter->observe(told);
  std::vector<ProposeJob> asked;
  std::vector<ProposalBuilder> builders;
  builders.reserve(lengths.size());
  Sampler sampler;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    builders.emplace_back(sampling, first(lengths[i]), 0, lengths[i], Purpose::target, random, sampler);
    asked.push_back({drafts[i].get(), text[static_cast<std::size_t>(lengths[i]) - 1], max, &builders[i]});
  }
  drafter->propose(asked);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto alone = drafter->open(80, max);
    if (lengths[i] > 1) alone->observe(first(lengths[i] - 1), {});
    EXPECT_EQ(asked[i].error, nullptr);
    EXPECT_EQ(builders[i].proposal().tokens, propose(*alone, first(lengths[i]), max, sampling, random).tokens)
        << lengths[i];
  }
}

TEST_F(ShortContext, APrefixThatWasRestoredWithoutItLeavesItBehind) {
  const auto draft = drafter->open(80, max);
  draft->skip(first(10));
  EXPECT_EQ(draft->context(), nullptr);
  draft->observe(std::span(text).subspan(10, 5), {});
  EXPECT_EQ(propose(*draft, first(16), max, sampling, random).size(), 0);
}

TEST_F(ShortContext, FollowsAContextShiftWhereItsCacheCanAndEndsWhereItCannot) {
  const auto recurrent = make_hash_model({.vocabulary = 7, .recurrent = true});
  const auto of_state = for_texts_of_any_length(std::make_unique<TrainedFor20>(*recurrent));
  const ContextShift shift = {.context = 12, .keep = 2, .discard = 5};
  for (const bool follows : {true, false}) {
    const auto draft = (follows ? drafter : of_state)->open(12, max);
    draft->observe(first(11), {});
    draft->make_room(shift);
    ASSERT_EQ(draft->positions().front().held + draft->positions().front().unread, 11) << "nothing is full yet";
    draft->observe(std::span(text).subspan(11, 1), {});
    draft->make_room(shift);
    EXPECT_EQ(draft->context() != nullptr, follows);
    EXPECT_EQ(propose(*draft, first(13), max, sampling, random).size(), follows ? max : 0);
    draft->make_room(shift);
    draft->forget();
    EXPECT_NE(draft->context(), nullptr);
  }
}

TEST_F(ShortContext, AsAStageOfAChainEndsAloneAndTheOtherStagesGoOn) {
  std::vector<std::shared_ptr<Drafter>> stages;
  stages.push_back(for_texts_of_any_length(std::make_unique<TrainedFor20>(*model)));
  ChainDrafter chain(std::move(stages));
  const auto draft = chain.open(80, max);
  draft->observe(first(15), {});
  EXPECT_FALSE(draft->needs_no_snapshot());
  EXPECT_EQ(propose(*draft, first(16), max, sampling, random).size(), max);
  draft->observe(std::span(text).subspan(15, 5), {});
  EXPECT_EQ(propose(*draft, first(21), max, sampling, random).size(), 0);
  draft->observe(std::span(text).subspan(20, 1), {});
  EXPECT_EQ(propose(*draft, first(22), max, sampling, random).size(), 0);
  EXPECT_EQ(draft->context(), nullptr);
  EXPECT_TRUE(draft->needs_no_snapshot());
  EXPECT_EQ(draft->reach(), reach);
}

}  // namespace
}  // namespace draftproof::short_context_test
