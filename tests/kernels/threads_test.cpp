// SPDX-License-Identifier: MIT
#include "kernels/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>

#include "tests/threads.h"

namespace draftproof::threads_test {
namespace {

TEST(WithWorkers, RoundsToNearestOnEveryThreadAndGivesTheCallersRoundingBack) {
  for (const int count : {1, 2}) {
    const Threads threads(count);
    std::fesetround(FE_UPWARD);
    std::atomic<int> others{0};
    with_workers([&] {
      if (std::fegetround() != FE_TONEAREST) ++others;
      parallel_ranges(1000, 1e9, 1000, [&](int, int, int) {
        if (std::fegetround() != FE_TONEAREST) ++others;
      });
    });
    EXPECT_EQ(others, 0) << count;
    EXPECT_EQ(std::fegetround(), FE_UPWARD) << count;
    std::fesetround(FE_TONEAREST);
  }
}

}  // namespace
}  // namespace draftproof::threads_test
