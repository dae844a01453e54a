// SPDX-License-Identifier: MIT
#include "ref/drafts/fitted_model.h"

#include <gtest/gtest.h>

#include <limits>

#include "ref/base/error.h"
#include "ref/drafts/model_draft.h"
#include "ref/models/hash.h"
#include "tests/drafts/support.h"

namespace draftproof::fitted_model_test {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

std::vector<float> rows_of(Model& model, std::span<const Token> text, int logits_from) {
  const int length = static_cast<int>(text.size());
  const auto cache = model.new_cache(length, length);
  const Transaction transaction = cache->begin(length);
  Outputs outputs;
  forward_alone(model, {.cache = cache.get(), .tokens = text, .logits_from = logits_from}, outputs);
  return outputs.logits;
}

TEST(FittedModel, HasRowsAsLongAsTheTargetsAndMinusInfinityForTokensThatItLacks) {
  const HashShape shape = {.vocabulary = 7};
  const auto own = make_hash_model(shape);
  const std::vector<Token> text = {1, 6, 0, 3, 5};
  const std::vector<float> rows = rows_of(*own, text, 2);
  for (const int vocabulary : {3, 6, 7, 8, 20}) {
    FittedModel fitted(make_hash_model(shape), vocabulary);
    EXPECT_EQ(fitted.vocabulary(), vocabulary);
    EXPECT_EQ(fitted.context(), own->context());
    std::vector<float> expected;
    for (int row = 0; row < 3; ++row) {
      for (int token = 0; token < vocabulary; ++token) {
        expected.push_back(token < 7 ? rows[static_cast<std::size_t>(row * 7 + token)] : minus_infinity);
      }
    }
    EXPECT_EQ(rows_of(fitted, text, 2), expected);
  }
}

TEST(FittedModel, ReadsATokenThatItLacksAsItsToken0) {
  const auto own = make_hash_model({.vocabulary = 7});
  FittedModel fitted(make_hash_model({.vocabulary = 7}), 9);
  const std::vector<Token> text = {1, 7, 3, 8}, read = {1, 0, 3, 0};
  const std::vector<float> rows = rows_of(fitted, text, 0);
  const std::vector<float> expected = rows_of(*own, read, 0);
  for (std::size_t row = 0; row < 4; ++row) {
    EXPECT_TRUE(std::equal(rows.begin() + 9 * row, rows.begin() + 9 * row + 7, expected.begin() + 7 * row)) << row;
  }
}

TEST(FittedModel, KeepsTheErrorsOfItsSegmentsApart) {
  FittedModel fitted(std::make_unique<TableModel>(2,
                                                  [](std::span<const Token> text) -> std::vector<float> {
                                                    if (text.back() == 1) throw Error("a bad row");
                                                    return {1, 2};
                                                  }),
                     3);
  const auto one = fitted.new_cache(4, 4), other = fitted.new_cache(4, 4);
  const Transaction first = one->begin(1), second = other->begin(2);
  const std::vector<Token> bad = {1}, good = {0, 2};
  const std::vector<Segment> batch = {{.cache = one.get(), .tokens = bad}, {.cache = other.get(), .tokens = good}};
  Outputs outputs;
  fitted.forward(batch, outputs);
  EXPECT_EQ(outputs.segments[0].error, "a bad row");
  EXPECT_EQ(outputs.segments[1].error, "");
  EXPECT_EQ(std::vector<float>(outputs.segments[1].logits.begin(), outputs.segments[1].logits.end()),
            (std::vector<float>{1, 2, minus_infinity, 1, 2, minus_infinity}));
}

/// All texts of three tokens, at both temperatures, with penalties for tokens on both sides of the border.
TEST(FittedModel, ProposesNoTokenBeyondEitherVocabularyAndStatesTheQThatWasDrawnFrom) {
  for (const int vocabulary : {4, 7}) {
    FittedModel fitted(make_hash_model({.vocabulary = 11 - vocabulary}), vocabulary);
    PhiloxSource random(5);
    for (int number = 0; number < vocabulary * vocabulary * vocabulary; ++number) {
      const std::vector<Token> text = {number % vocabulary, number / vocabulary % vocabulary,
                                       number / vocabulary / vocabulary};
      for (const Sampling& sampling : {Sampling{}, {.temperature = 1}, {.temperature = 1, .repeat_penalty = 1.5F}}) {
        ModelDraft draft(fitted, 20, 5);
        draft.observe(std::span(text).first(2), {});
        const Proposal proposal = propose(draft, text, 5, sampling, random);
        ASSERT_EQ(proposal.size(), 5);
        for (const Token token : proposal.tokens) ASSERT_LT(token, 4);
        for (const Distribution& q : proposal.drawn_from) ASSERT_LT(q.tokens().back(), 4);
        expect_redrawn(proposal, 3, Purpose::target, 0, random);
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::fitted_model_test
