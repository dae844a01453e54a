// SPDX-License-Identifier: MIT
#include "ref/base/require.h"

#include <gtest/gtest.h>

#include "ref/base/error.h"

namespace draftproof::require_test {
namespace {

TEST(RequireDeathTest, AbortsInEveryBuildWithPlaceMessageAndCondition) {
  const int found = 2;
  EXPECT_DEATH(REQUIRE(found == 3, "three are needed"),
               "require_test.cpp:[0-9]+: broken invariant: three are needed \\(found == 3\\)");
}

TEST(Require, EvaluatesAConditionThatHoldsExactlyOnce) {
  int times = 0;
  REQUIRE(++times == 1, "evaluated once");
  EXPECT_EQ(times, 1);
}

TEST(Require, IsOneStatement) {
  const bool fine = true;
  if (fine) REQUIRE(fine, "stands alone before an else");
  else FAIL() << "the else must belong to the outer if";
}

TEST(Error, CarriesItsMessage) { EXPECT_STREQ(Error("model.gguf: no such file").what(), "model.gguf: no such file"); }

}  // namespace
}  // namespace draftproof::require_test
