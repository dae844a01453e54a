// SPDX-License-Identifier: MIT
#include "serve/connection_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <future>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "tests/sanitized.h"

namespace draftproof::serve {
namespace {

using std::chrono::milliseconds;

TEST(ConnectionThreads, EveryTaskRunsOnceAndNoMoreAtATimeThanAllowed) {
  for (const std::size_t max : {1U, 3U, 64U}) {
    ConnectionThreads threads(max);
    std::atomic<int> done = 0;
    std::atomic<int> now = 0;
    std::atomic<int> together = 0;
    for (int i = 0; i < 500; ++i) {
      EXPECT_TRUE(threads.enqueue([&] {
        const int running = ++now;
        for (int seen = together; running > seen && !together.compare_exchange_weak(seen, running);) {
        }
        std::this_thread::yield();
        --now;
        ++done;
      }));
    }
    threads.shutdown();
    EXPECT_EQ(done, 500);
    EXPECT_LE(together, static_cast<int>(max));
    EXPECT_EQ(threads.threads(), 0U);
  }
}

TEST(ConnectionThreads, AThreadThatIsIdleKeepsNothingOfWhatItRan) {
  ConnectionThreads threads(2);
  for (int i = 0; i < 3; ++i) {  // the first task of a thread, and later ones
    auto kept = std::make_shared<int>(i);
    const std::weak_ptr<int> seen = kept;
    EXPECT_TRUE(threads.enqueue([kept = std::move(kept)] {}));
    for (int waited = 0; !seen.expired() && waited < 5000; ++waited) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_TRUE(seen.expired()) << i;
  }
  EXPECT_GT(threads.threads(), 0U);
}

TEST(ConnectionThreads, TasksOneAfterAnotherNeedOneThreadHoweverManyThereAre) {
  ConnectionThreads threads(64);
  std::latch all(8);
  std::latch go(1);
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(threads.enqueue([&] {
      all.count_down();
      go.wait();
    }));
  }
  all.wait();
  EXPECT_EQ(threads.threads(), 8U);
  go.count_down();
  std::this_thread::sleep_for(milliseconds(50));  // all of them are idle
  std::set<std::thread::id> used;
  for (int i = 0; i < 50; ++i) {
    std::promise<std::thread::id> by;
    EXPECT_TRUE(threads.enqueue([&] { by.set_value(std::this_thread::get_id()); }));
    used.insert(by.get_future().get());
    std::this_thread::sleep_for(milliseconds(2));  // it is idle again
  }
  EXPECT_LE(used.size(), 2U) << "a thread that the system holds up may not be idle in time";
  threads.shutdown();
}

TEST(ConnectionThreads, AThreadWithoutATaskEnds) {
  ConnectionThreads threads(4, milliseconds(20));
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(threads.enqueue([] { std::this_thread::sleep_for(milliseconds(5)); }));
  }
  for (int i = 0; i < 1000 && threads.threads() > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(threads.threads(), 0U);
  std::promise<void> again;
  EXPECT_TRUE(threads.enqueue([&] { again.set_value(); }));
  again.get_future().get();
  threads.shutdown();
}

TEST(ConnectionThreads, TasksMayComeFromManyThreadsWhileOthersEnd) {
  ConnectionThreads threads(5, milliseconds(1));
  std::atomic<int> done = 0;
  std::vector<std::thread> askers;
  for (int asker = 0; asker < 4; ++asker) {
    askers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        EXPECT_TRUE(threads.enqueue([&] { ++done; }));
        if (i % 10 == 0) std::this_thread::sleep_for(milliseconds(2));
      }
    });
  }
  for (std::thread& asker : askers) asker.join();
  threads.shutdown();
  EXPECT_EQ(done, 1200);
}

TEST(ConnectionThreads, ATaskIsRefusedWhereTheSystemGivesNoThreadForIt) {
  if (test::sanitized) GTEST_SKIP() << "a sanitizer needs more address space than the limit leaves";
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  ASSERT_GT(pages, 0U);
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit tight = {pages * static_cast<std::size_t>(getpagesize()) + (std::size_t{4} << 20), before.rlim_max};
  ConnectionThreads threads(64);
  std::latch go(1);
  std::atomic<int> done = 0;
  int taken = 0;
  bool refused = false;
  setrlimit(RLIMIT_AS, &tight);  // less than the stack of a thread; some stacks of threads that have ended are kept
  while (taken < 64 && !refused) {
    refused = !threads.enqueue([&] {
      go.wait();
      ++done;
    });
    if (!refused) ++taken;
  }
  setrlimit(RLIMIT_AS, &before);
  go.count_down();
  EXPECT_TRUE(refused);
  EXPECT_EQ(threads.queued(), 0U);
  threads.shutdown();
  EXPECT_EQ(done, taken);
}

}  // namespace
}  // namespace draftproof::serve
