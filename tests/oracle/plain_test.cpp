// SPDX-License-Identifier: MIT
#include "oracle/plain/plain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/oracle/constant_model.h"

namespace draftproof::plain_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Selects the first token with a weight, and records the draws.
class FirstSource final : public RandomSource {
 public:
  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override {
    keys.push_back(key);
    std::size_t i = 0;
    while (weights[i] == 0) ++i;
    return i;
  }
  std::vector<Key> keys;
};

Request request_of(std::vector<Token> prompt, int max_new_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_new_tokens = max_new_tokens;
  return request;
}

TEST(Plain, GreedyTakesTheFirstMostLikelyTokenUntilTheBudgetEnds) {
  ConstantModel model({1, 3, 3, 2});
  FirstSource random;
  const PlainRun run = plain(model, request_of({0}, 3), random);
  EXPECT_THAT(run.output, ElementsAre(1, 1, 1));
  EXPECT_EQ(run.finish, Finish::length);
  ASSERT_EQ(run.rows.size(), 3u);
  const float row[] = {1, 3, 3, 2};
  for (const PlainRow& plain_row : run.rows) {
    EXPECT_EQ(plain_row.logits, digest_of(row));
    EXPECT_EQ(plain_row.distribution, Distribution::point(1));
  }
}

TEST(Plain, ListsTheMostLikelyTokensWithTheSmallerFirstAmongEquals) {
  const float row[] = {1, 3, 3, 2};
  const auto entry = [&](Token token) { return TokenLogprob{token, log_probability(row, token)}; };
  EXPECT_THAT(top_log_probabilities(row, 0), IsEmpty());
  EXPECT_THAT(top_log_probabilities(row, 1), ElementsAre(entry(1)));
  EXPECT_THAT(top_log_probabilities(row, 3), ElementsAre(entry(1), entry(2), entry(3)));
  EXPECT_THAT(top_log_probabilities(row, 20), ElementsAre(entry(1), entry(2), entry(3), entry(0)));
}

TEST(Plain, BudgetsOfZeroAndOne) {
  ConstantModel model({1, 3});
  FirstSource random;
  const PlainRun none = plain(model, request_of({0}, 0), random);
  EXPECT_THAT(none.output, IsEmpty());
  EXPECT_THAT(none.rows, IsEmpty());
  EXPECT_EQ(none.finish, Finish::length);
  EXPECT_THAT(random.keys, IsEmpty());
  EXPECT_THAT(plain(model, request_of({0}, 1), random).output, ElementsAre(1));
}

TEST(Plain, EndsWithTheFirstStopTokenWhichIsPartOfTheText) {
  ConstantModel model({1, 3});
  FirstSource random;
  Request request = request_of({1, 1}, 5);  // a stop token in the prompt does not end the text
  request.stops = {7, 1};
  const PlainRun run = plain(model, request, random);
  EXPECT_THAT(run.output, ElementsAre(1));
  EXPECT_EQ(run.finish, Finish::stop);
}

TEST(Plain, AStopTokenThatFillsTheBudgetIsAStop) {
  ConstantModel model({1, 3});
  FirstSource random;
  Request request = request_of({0}, 1);
  request.stops = {1};
  EXPECT_EQ(plain(model, request, random).finish, Finish::stop);
}

TEST(Plain, PenaltiesSeePromptAndOutput) {
  ConstantModel model({3, 2});
  FirstSource random;
  Request request = request_of({0}, 4);
  request.sampling.repeat_penalty = 2;
  request.sampling.repeat_last_n = 1;  // after a 0 the row is {1.5, 2}, after a 1 it is {3, 1}
  EXPECT_THAT(plain(model, request, random).output, ElementsAre(1, 0, 1, 0));
  request.sampling.repeat_last_n = 2;  // 0: {1.5, 2}; 0 1, 1 0 and 0 0: {1.5, 1} and {1.5, 1} and {1.5, 2}
  EXPECT_THAT(plain(model, request, random).output, ElementsAre(1, 0, 0, 1));
}

TEST(Plain, EveryDrawIsKeyedBySequenceAndPosition) {
  ConstantModel model({0, 0});
  FirstSource random;
  Request request = request_of({1, 0, 1}, 2);
  request.sampling.temperature = 1;
  request.sequence = 9;
  EXPECT_THAT(plain(model, request, random).output, ElementsAre(0, 0));
  EXPECT_THAT(random.keys, ElementsAre(Key{9, 3, Purpose::target}, Key{9, 4, Purpose::target}));
}

}  // namespace
}  // namespace draftproof::plain_test
