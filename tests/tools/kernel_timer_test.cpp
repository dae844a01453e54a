// SPDX-License-Identifier: MIT
#include "tools/bench/kernel_timer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace draftproof::test::kernel_timer_test {
namespace {

using std::chrono::milliseconds;

std::atomic<int> together{0};

/// A table whose entries sleep, or wait until two threads are inside.
Kernels slow_table() {
  Kernels table = *find_kernels("scalar");
  table.add = [](const float*, std::size_t, float*) noexcept { std::this_thread::sleep_for(milliseconds(20)); };
  table.exponentials = [](const float*, float, float, std::size_t, float*) noexcept {
    ++together;
    while (together < 2) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(20));
  };
  return table;
}

TEST(KernelTimer, SeparatesTimeInsideEntriesFromTimeOutside) {
  const Kernels slow = slow_table();
  KernelTimer watch(slow);
  for (int i = 0; i < 2; ++i) {  // the second call starts at zero
    const auto [whole, outside, bytes] = watch.watch([&] {
      watch.table().add(nullptr, 0, nullptr);
      std::this_thread::sleep_for(milliseconds(30));
      watch.table().add(nullptr, 0, nullptr);
    });
    EXPECT_GE(outside, 0.03);
    EXPECT_GE(whole - outside, 0.04);
  }
}

TEST(KernelTimer, CountsTimeOfConcurrentThreadsOnce) {
  const Kernels slow = slow_table();
  KernelTimer watch(slow);
  together = 0;
  const auto [whole, outside, bytes] = watch.watch([&] {
    const auto enter = [&] { watch.table().exponentials(nullptr, 0, 0, 0, nullptr); };
    std::thread other(enter);
    enter();
    other.join();
  });
  EXPECT_GE(whole - outside, 0.02);
  EXPECT_GE(outside, 0);  // twice 20 ms would be more than the whole
}

TEST(KernelTimer, RestoresTheTableAfterWatching) {
  const Kernels& scalar = *find_kernels("scalar");
  KernelTimer watch(scalar);
  watch.watch([&] { EXPECT_NE(watch.table().matmul, scalar.matmul); });
  EXPECT_EQ(watch.table().matmul, scalar.matmul);
}

}  // namespace
}  // namespace draftproof::test::kernel_timer_test
