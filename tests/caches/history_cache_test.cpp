// SPDX-License-Identifier: MIT
#include "ref/caches/history_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace draftproof::history_cache_test {
namespace {

using testing::ElementsAre;

TEST(History, ARejectedTokenIsReplacedByTheNextOneAtItsPosition) {
  HistoryCache history;
  history.open(3);
  history.write(0, 5);
  history.write(1, 6);
  history.write(2, 7);
  EXPECT_THAT(history.tokens(3), ElementsAre(5, 6, 7));
  EXPECT_THAT(history.tokens(2), ElementsAre(5, 6));
  history.settle(1);
  history.open(3);
  history.write(1, 8);
  EXPECT_THAT(history.tokens(2), ElementsAre(5, 8));
}

TEST(History, AnyPathOfATreeCanBeKept) {
  // 5 -> {6 -> 7, 8 -> {9, 4}}
  const std::vector<Token> tokens = {5, 6, 7, 8, 9, 4};
  const std::vector<int> depths = {0, 1, 2, 1, 2, 2};
  const std::vector<std::pair<std::vector<int>, std::vector<Token>>> paths = {{{}, {}},
                                                                              {{0}, {5}},
                                                                              {{0, 1}, {5, 6}},
                                                                              {{0, 1, 2}, {5, 6, 7}},
                                                                              {{0, 3}, {5, 8}},
                                                                              {{0, 3, 4}, {5, 8, 9}},
                                                                              {{0, 3, 5}, {5, 8, 4}}};
  for (const auto& [path, kept] : paths) {
    HistoryCache history;
    history.open(1);
    history.write(0, 2);
    history.settle(1);
    history.open(7);
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      history.branch(1 + depths[row]);
      history.write(1 + depths[row], tokens[row]);
    }
    history.keep(path);
    history.settle(1 + static_cast<int>(path.size()));
    std::vector<Token> expected = {2};
    expected.insert(expected.end(), kept.begin(), kept.end());
    EXPECT_THAT(history.tokens(static_cast<int>(expected.size())), testing::ElementsAreArray(expected));
  }
}

TEST(HistoryDeathTest, ABranchOutsideTheTransactionAborts) {
  HistoryCache history;
  history.open(2);
  history.write(0, 5);
  history.settle(1);
  history.open(3);
  history.write(1, 6);
  EXPECT_DEATH(history.branch(0), "a branch begins");
  EXPECT_DEATH(history.branch(3), "a branch begins");
}

TEST(HistoryDeathTest, ReadingRolledBackTokensAborts) {
  HistoryCache history;
  history.open(2);
  history.write(0, 5);
  history.write(1, 6);
  history.settle(1);
  EXPECT_DEATH(history.tokens(2), "only written tokens");
  EXPECT_DEATH(history.tokens(-1), "only written tokens");
}

}  // namespace
}  // namespace draftproof::history_cache_test
