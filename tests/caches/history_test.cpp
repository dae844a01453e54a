// SPDX-License-Identifier: MIT
#include "ref/caches/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace draftproof {
namespace {

using testing::ElementsAre;

TEST(History, ARefusedTokenIsReplacedByTheNextOneAtItsPosition) {
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

TEST(HistoryDeathTest, ForgottenTokensCannotBeRead) {
  HistoryCache history;
  history.open(2);
  history.write(0, 5);
  history.write(1, 6);
  history.settle(1);
  EXPECT_DEATH(history.tokens(2), "only written tokens");
  EXPECT_DEATH(history.tokens(-1), "only written tokens");
}

}  // namespace
}  // namespace draftproof
