// SPDX-License-Identifier: MIT
// Lists of the likeliest tokens as distributions: what is used of a list depends on the lists before, never on the
// token that is bet on.
#include "oracle/spectrace/top_logprobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace draftproof::spectrace::top_logprobs_test {
namespace {

using testing::ElementsAre;

Header some_header() {
  Header header;
  header.vocabulary = 6;
  return header;
}

/// Tokens 0, 1, ... with these probabilities.
RealRow list_of(const std::vector<double>& probabilities) {
  RealRow list;
  for (const double p : probabilities) {
    list.tokens.push_back(static_cast<Token>(list.tokens.size()));
    list.weights.push_back(std::log(p));
  }
  return list;
}

std::vector<Token> used(const TopLogprobs& lists, const RealRow& list) {
  return lists.distribution(list, some_header())->distribution.tokens();
}

TEST(TopLogprobs, OfTheFirstListNothingIsUsed) { EXPECT_THAT(used({}, list_of({0.5, 0.25, 0.125})), ElementsAre(6)); }

TEST(TopLogprobs, LaterListsAreUsedButForTheirLeastToken) {
  TopLogprobs lists;
  lists.learn(list_of({0.5, 0.25, 0.125}), 0);
  EXPECT_THAT(used(lists, list_of({0.5, 0.25, 0.125})), ElementsAre(0, 1, 6));
}

TEST(TopLogprobs, AnEmittedTokenThatMayHaveBeenAddedDoesNotCount) {
  TopLogprobs lists;
  lists.learn(list_of({0.5, 0.25, 0.125}), 2);
  EXPECT_THAT(used(lists, list_of({0.5, 0.25, 0.125})), ElementsAre(0, 6));
}

TEST(TopLogprobs, EquallyLikelyTokensAreUsedTogetherOrNotAtAll) {
  TopLogprobs lists;
  lists.learn(list_of({0.5, 0.25, 0.125}), 0);
  EXPECT_THAT(used(lists, list_of({0.5, 0.125, 0.125})), ElementsAre(0, 6));
}

TEST(TopLogprobs, AListOfMoreThanAllProbabilityIsNoDistribution) {
  EXPECT_FALSE(TopLogprobs().distribution(list_of({0.75, 0.5}), some_header()));
}

}  // namespace
}  // namespace draftproof::spectrace::top_logprobs_test
