// SPDX-License-Identifier: MIT
#include "ref/decoding/fastest_threads.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/decoding/support.h"
#include "tests/threads.h"

namespace draftproof::fastest_threads_test {
namespace {

TEST(FastestThreads, IsTheLeastTimeUnlessFewerThreadsTakeHardlyMore) {
  EXPECT_EQ(fastest_of(std::vector<ThreadsTime>{{1, 4.0}}), 1);
  EXPECT_EQ(fastest_of(std::vector<ThreadsTime>{{1, 4.0}, {2, 2.1}, {4, 1.2}, {8, 1.5}}), 4);
  EXPECT_EQ(fastest_of(std::vector<ThreadsTime>{{1, 4.0}, {2, 1.01}, {4, 1.0}, {8, 1.0}}), 2);
  EXPECT_EQ(fastest_of(std::vector<ThreadsTime>{{1, 4.0}, {2, 1.03}, {4, 1.0}, {8, 1.0}}), 4);
  EXPECT_EQ(fastest_of(std::vector<ThreadsTime>{{1, 1.0}, {2, 0.99}, {4, 1.2}}), 1);
}

TEST(FastestThreads, IsFoundByMeasuringAndTheNumberOfThreadsStaysAsItWas) {
  const Threads before(3);
  const auto hash = make_hash_model({.vocabulary = 32, .levels = 3, .seed = 5});
  for (const int number : {1, 2, 4}) {
    WatchedModel model(*hash);
    model.before = [number] {
      if (threads() != number) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
    EXPECT_EQ(fastest_threads(model, 4), number);
    EXPECT_EQ(threads(), 3);
  }
  EXPECT_EQ(fastest_threads(*hash, 1), 1);
}

}  // namespace
}  // namespace draftproof::fastest_threads_test
