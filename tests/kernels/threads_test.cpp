// SPDX-License-Identifier: MIT
#include "kernels/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <thread>
#include <vector>

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

TEST(ParallelRanges, TouchEveryIndexOnceAndAreDoneWhenTheyReturn) {
  for (const int count : {2, 3, 5}) {
    const Threads threads(count);
    with_workers([&] {
      for (int size = 1; size < 400; size += 7) {
        for (const int grain : {1, 3, 16}) {
          std::vector<int> touched(static_cast<std::size_t>(size));
          parallel_ranges(
              size, 1e9, size,
              [&](int begin, int end, int) {
                for (int i = begin; i < end; ++i) ++touched[i];
              },
              grain);
          ASSERT_EQ(touched, std::vector<int>(static_cast<std::size_t>(size), 1)) << count << " " << grain;
        }
      }
    });
  }
}

TEST(ParallelRanges, WhatTheOtherThreadWroteIsThereWhenTheyReturn) {
  const Threads two(2);
  with_workers([&] {
    for (int round = 0; round < 20; ++round) {
      std::vector<int> touched(64);
      std::atomic<int> joined{0};
      parallel_ranges(64, 1e9, 2, [&](int begin, int end, int worker) {
        joined.fetch_or(1 << worker, std::memory_order_relaxed);
        while (threads() > 1 && joined.load(std::memory_order_relaxed) != 3) std::this_thread::yield();
        for (int i = begin; i < end; ++i) ++touched[i];
      });
      ASSERT_EQ(touched, std::vector<int>(64, 1));
    }
  });
}

}  // namespace
}  // namespace draftproof::threads_test
