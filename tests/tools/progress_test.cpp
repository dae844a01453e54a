// SPDX-License-Identifier: MIT
#include "tools/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>

#include <functional>
#include <thread>

#include "ref/base/require.h"
#include "tests/tools/command.h"

namespace draftproof::test::progress_test {
namespace {

/// A container may have none.
bool has_terminals() {
  int ours = -1;
  int terminal = -1;
  if (openpty(&ours, &terminal, nullptr, nullptr, nullptr) != 0) return false;
  close(terminal);
  close(ours);
  return true;
}

/// What f() writes to standard error when that is a terminal.
std::string shown(const std::function<void()>& f) {
  int ours = -1;
  int terminal = -1;
  REQUIRE(openpty(&ours, &terminal, nullptr, nullptr, nullptr) == 0, "has_terminals() was asked before");
  const int before = dup(STDERR_FILENO);
  dup2(terminal, STDERR_FILENO);
  f();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  fcntl(ours, F_SETFL, O_NONBLOCK);
  std::string text;
  char piece[256];
  for (ssize_t count = 0; (count = read(ours, piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<std::size_t>(count));
  }
  close(terminal);
  close(ours);
  return text;
}

const std::string gone = "\r\033[K";
constexpr std::chrono::milliseconds long_enough(600);

TEST(Progress, ShowsSlowLoadingAndThenTheFormerLine) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const std::string text = shown([] {
    Progress progress(false);
    progress.show("before");
    const LoadingObserver observer = progress.observer();
    observer("model", 0, 9'000'000);
    observer("model", 1'000'000, 9'000'000);  // too soon
    std::this_thread::sleep_for(long_enough);
    observer("model", 5'500'000, 9'000'000);
    observer("model", 9'000'000, 9'000'000);
  });
  EXPECT_EQ(text, gone + "before" + gone + "loading model: 5 of 9 MB" + gone + "before" + gone);
}

TEST(Progress, ShowsNoFastLoadingAndNothingWhenQuiet) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const auto load = [](bool quiet, std::chrono::milliseconds pause) {
    return shown([&] {
      Progress progress(quiet);
      const LoadingObserver observer = progress.observer();
      observer("model", 0, 9);
      std::this_thread::sleep_for(pause);
      observer("model", 5, 9);
      observer("model", 9, 9);
    });
  };
  EXPECT_EQ(load(false, std::chrono::milliseconds(0)), "");
  EXPECT_EQ(load(true, long_enough), "");
}

}  // namespace
}  // namespace draftproof::test::progress_test
