// SPDX-License-Identifier: MIT
#include "ref/drafts/prediction.h"

#include "ref/base/error.h"
#include "ref/models/hash.h"
#include "tests/drafts/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace draftproof::prediction_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int vocabulary = 1000;
constexpr int context = 200;

const std::unique_ptr<Model>& target() {
  static const auto model = make_hash_model({.vocabulary = vocabulary, .context = context});
  return model;
}

std::vector<Token> counted(Token first, int size) {
  std::vector<Token> tokens(static_cast<std::size_t>(size));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<Token> operator+(std::vector<Token> a, const std::vector<Token>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// What a new draft proposes after this prompt and output.
std::vector<Token> proposed(const std::vector<Token>& prediction, const std::vector<Token>& prompt,
                            const std::vector<Token>& output, int limit = 16) {
  const std::vector<Token> text = prompt + output;
  const auto draft = prediction_draft(prediction, prompt, *target(), 16);
  draft->observe(std::span<const Token>(text).first(text.size() - 1), {});
  PhiloxSource random(1);
  return propose(*draft, text, std::min(limit, draft->draft_max()), {}, random).tokens;
}

TEST(Prediction, IsDraftedFromItsBeginningToItsEnd) {
  const std::vector<Token> prompt = counted(900, 5);
  const std::vector<Token> prediction = counted(10, 40);
  EXPECT_EQ(proposed(prediction, prompt, {}), counted(10, 16));
  EXPECT_EQ(proposed(prediction, prompt, counted(10, 16)), counted(26, 16));
  EXPECT_EQ(proposed(prediction, prompt, counted(10, 32)), counted(42, 8));
  EXPECT_THAT(proposed(prediction, prompt, counted(10, 40)), IsEmpty());
  EXPECT_EQ(proposed(prediction, prompt, {}, 3), counted(10, 3));
}

TEST(Prediction, IsDraftedFromItsBeginningWhereThePromptIsOneTokenOrHasTheSameText) {
  const std::vector<Token> prediction = counted(10, 40);
  EXPECT_EQ(proposed(prediction, {7}, {}), counted(10, 4)) << "one token is the same: four are drafted";
  EXPECT_EQ(proposed(prediction, counted(900, 3) + prediction + counted(950, 3), {}), counted(10, 16));
}

TEST(Prediction, IsLeftAndFoundAgainWhereTheOutputDiffers) {
  const std::vector<Token> prompt = counted(900, 5);
  const std::vector<Token> prediction = counted(10, 100);
  const std::vector<Token> changed = counted(10, 20) + std::vector<Token>{500};
  EXPECT_THAT(proposed(prediction, prompt, changed), IsEmpty());
  // Further on in the prediction, and before: whatever was inserted, left out or moved.
  EXPECT_EQ(proposed(prediction, prompt, changed + std::vector<Token>{31}), counted(32, 4));
  EXPECT_EQ(proposed(prediction, prompt, changed + counted(31, 4)), counted(35, 16));
  EXPECT_EQ(proposed(prediction, prompt, changed + counted(12, 4)), counted(16, 16));
}

TEST(Prediction, DoesNotDraftFromThePromptItself) {
  const std::vector<Token> prompt = counted(100, 50) + counted(200, 10);
  EXPECT_THAT(proposed(counted(10, 40), prompt, counted(120, 5)), IsEmpty());
}

TEST(Prediction, IsProposedTheSameAfterTheTextWasForgottenAndReadAgain) {
  const std::vector<Token> prompt = counted(900, 5);
  const std::vector<Token> text = prompt + counted(10, 7);
  const auto draft = prediction_draft(counted(10, 40), prompt, *target(), 16);
  PhiloxSource random(1);
  for (int time = 0; time < 2; ++time) {
    draft->observe(std::span<const Token>(text).first(text.size() - 1), {});
    EXPECT_EQ(propose(*draft, text, 16, {}, random).tokens, counted(17, 16));
    draft->forget();
  }
}

TEST(Prediction, OfTokensThatTheTargetHasNotIsRefused) {
  for (const Token wrong : {-1, vocabulary}) {
    try {
      prediction_draft(std::vector<Token>{3, wrong}, counted(0, 2), *target(), 16);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("the prediction: " + std::to_string(wrong) + " is no token of the target"));
    }
  }
}

TEST(Prediction, ThatIsLongerThanTheContextIsRefused) {
  EXPECT_NE(prediction_draft(std::vector<Token>(context, 3), counted(0, 2), *target(), 16), nullptr);
  try {
    prediction_draft(std::vector<Token>(context + 1, 3), counted(0, 2), *target(), 16);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has 201 tokens, and the context of the target has 200"));
  }
}

}  // namespace
}  // namespace draftproof::prediction_test
