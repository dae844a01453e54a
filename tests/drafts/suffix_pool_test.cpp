// SPDX-License-Identifier: MIT
#include "ref/drafts/suffix_pool.h"

#include "tests/drafts/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace draftproof::suffix_pool_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Token> counted(Token first, int size) {
  std::vector<Token> tokens(static_cast<std::size_t>(size));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(SuffixPool, ContinuesATextAsAnEarlierOneWasFromItsFirstTokenOn) {
  SuffixPool pool(2048);
  EXPECT_THAT(pool.continuation(counted(0, 10), 16), IsEmpty());
  pool.add(counted(500, 10), counted(10, 40));
  EXPECT_EQ(pool.continuation(counted(500, 10), 16), counted(10, 4)) << "four tokens of a prompt are known";
  EXPECT_EQ(pool.continuation(counted(10, 20), 16), counted(30, 16));
  EXPECT_EQ(pool.continuation(counted(10, 20), 3), counted(30, 3));
  EXPECT_THAT(pool.continuation({{3, 10}}, 16), IsEmpty()) << "two tokens are to be the same";
  EXPECT_THAT(pool.continuation(counted(40, 10), 16), IsEmpty()) << "nothing followed";
}

TEST(SuffixPool, DoesNotContinueATextWithTheBeginningOfTheNext) {
  SuffixPool pool(2048);
  pool.add({}, counted(10, 5));
  pool.add({}, counted(100, 5));
  EXPECT_THAT(pool.continuation(counted(10, 5), 16), IsEmpty());
}

TEST(SuffixPool, PrefersWhatFollowedLongerMatches) {
  SuffixPool pool(2048);
  pool.add({}, std::vector<Token>{1, 2, 3, 4, 5, 6, 70, 71, 72, 73});
  pool.add({}, std::vector<Token>{9, 9, 9, 4, 5, 6, 80, 81, 82, 83});
  EXPECT_THAT(pool.continuation({{9, 4, 5, 6}}, 2), ElementsAre(80, 81));
  EXPECT_THAT(pool.continuation({{2, 3, 4, 5, 6}}, 2), ElementsAre(70, 71));
}

TEST(SuffixPool, HoldsTheLastTextsAndNoMoreTokensThanItMay) {
  constexpr int max = SuffixPool::max_tokens_min;
  SuffixPool pool(max);
  for (int text = 0; text < 50; ++text) {
    pool.add({{1, 2, 3}}, counted(1000 * (text + 1), 100));
    EXPECT_LE(pool.tokens(), max);
    EXPECT_GE(pool.tokens(), std::min(104 * (text + 1), max / 2 - 104));
    EXPECT_EQ(pool.continuation(counted(1000 * (text + 1), 50), 8), counted(1000 * (text + 1) + 50, 8)) << text;
    EXPECT_THAT(pool.continuation(counted(1000 * (text - 9), 50), 8), IsEmpty()) << text;
  }
  pool.add({{1, 2, 3}}, counted(0, 5000));
  EXPECT_LE(pool.tokens(), max);
  EXPECT_EQ(pool.continuation(counted(4950, 20), 8), counted(4970, 8));
}

}  // namespace
}  // namespace draftproof::suffix_pool_test
