// SPDX-License-Identifier: MIT
// Limits of the process, as a container or a batch system sets them. Exit status 1 means that a bug is proven, so no
// limit may ever end a command with it. And what a library has set of the process changes no bit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "tests/sanitized.h"
#include "tests/tools/command.h"

namespace draftproof::test::limits_test {
namespace {

using ::testing::HasSubstr;

constexpr int vacuous = 2;  // of a text without draft tokens

struct Limits : ::testing::Test {
  Folder folder;
  const std::string trace = (folder.path() / "t.jsonl").string();
  const std::string model = (folder.path() / "model").string();  // another user may not read the folder of the sources
  const std::vector<std::string> check = {"trace", "check", trace, "--target", model, "--threads", "2"};

  void SetUp() override {
    if (sanitized) GTEST_SKIP() << "a sanitizer takes address space and threads of its own";
    files::copy(fixture("models/tale-small"), model, files::copy_options::recursive);
    const std::vector<std::string> decode = {"generate", model, "-p", "Once", "-n", "4", "--trace", trace};
    ASSERT_EQ(run_command(decode).status, 0);
    files::permissions(folder.path(), files::perms::others_all, files::perm_options::add);
    files::permissions(trace, files::perms::others_read, files::perm_options::add);
  }
};

using LimitsSlow = Limits;

/// Below the first limit that lets the command start, the loader and the libraries end it as they like, before main.
TEST_F(LimitsSlow, OfTheAddressSpaceAreNeverAVerdict) {
  std::set<int> seen;
  for (int megabytes = 50; megabytes <= 170; megabytes += 2) {
    const std::string limit = fmt::format("ulimit -v {};", 1024 * megabytes);
    if (run_command({"--version"}, limit).status != 0) continue;
    const Outcome outcome = run_command(check, limit);
    seen.insert(outcome.status);
    EXPECT_TRUE(outcome.status == vacuous || outcome.status == 3)
        << megabytes << " MiB: status " << outcome.status << ", " << outcome.err;
    EXPECT_TRUE(outcome.status != 3 || outcome.err.find("draftproof: ") != std::string::npos) << outcome.err;
  }
  EXPECT_TRUE(seen.contains(3)) << "no limit was felt";
  EXPECT_TRUE(seen.contains(vacuous)) << "every limit was felt";
}

TEST_F(Limits, OfOneThreadLeaveOneThread) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become a user whose threads are limited";
  const std::string as_user = "prlimit --nproc=1 setpriv --reuid=54321 --regid=54321 --clear-groups";
  const Outcome outcome = run_command(check, as_user);
  EXPECT_EQ(outcome.status, vacuous) << outcome.err;
}

/// From the first allocations, while options are read, to the last.
TEST_F(Limits, OfMemoryEndEveryRunWithoutASignal) {
  std::set<int> seen;
  for (long from = 1; from < 200'000; from += 1 + from / 3) {
    const Outcome outcome =
        run_command({"generate", fixture("models/tale-small"), "-p", "Once", "-n", "4", "--threads", "1"},
                    fmt::format("FAIL_FROM={} LD_PRELOAD={}", from, quoted(NO_MEMORY_LIBRARY)));
    seen.insert(outcome.status);
    EXPECT_TRUE(outcome.status == 0 || outcome.status == 3 || outcome.status == 127)
        << "from allocation " << from << " on: status " << outcome.status << ", " << outcome.err;
  }
  EXPECT_TRUE(seen.contains(3));
  EXPECT_TRUE(seen.contains(0));
}

/// Of the last allocations, with which the HDF5 library writes, each fails alone.
TEST_F(LimitsSlow, OfMemoryWhileAFixtureIsWrittenKeepTheOldOne) {
  const std::string file = (folder.path() / "f.h5").string();
  const std::vector<std::string> record = {
      "fixture",  "record", fixture("models/tale-small"), file, "-p", "Once", "-n", "4", "--threads", "1",
      "--reason", "a run"};
  const auto with = [&](const char* which, long number) {
    return run_command(record, fmt::format("{}={} LD_PRELOAD={}", which, number, quoted(NO_MEMORY_LIBRARY)));
  };
  ASSERT_EQ(run_command(record).status, 0);
  const std::string old = text_of(file);
  long too_few = 0;
  long enough = 1'000'000;
  while (enough - too_few > 1) {
    const long number = (too_few + enough) / 2;
    (with("FAIL_FROM", number).status == 0 ? enough : too_few) = number;
  }
  int refused = 0;
  for (long number = std::max(1L, enough - 1500); number < enough; number += 25) {
    const Outcome outcome = with("FAIL_ONE", number);
    EXPECT_TRUE(outcome.status == 0 || outcome.status == 3) << number << ": " << outcome.status << outcome.err;
    if (outcome.status == 0) continue;
    ++refused;
    EXPECT_EQ(text_of(file), old) << number;
    EXPECT_THAT(outcome.err, HasSubstr("draftproof: "));
  }
  EXPECT_GT(refused, 10);
}

TEST_F(Limits, OnOneCpuTakeOneThread) {
  const Outcome outcome = run_command({"generate", fixture("models/tale-small"), "-p", "Once", "-n", "4", "--stats"},
                                      "taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("with 1 thread,"));
}

TEST_F(Limits, TheRoundingThatALibraryLeavesBehindChangesNoBit) {
  const std::vector<std::string> decode = {
      "generate", fixture("models/tale-small"), "-p", "Once", "-n", "12", "--logprobs", "--threads", "2"};
  const Outcome expected = run_command(decode);
  const Outcome outcome = run_command(decode, "LD_PRELOAD=" + quoted(ROUNDS_UP_LIBRARY));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, expected.out);
}

}  // namespace
}  // namespace draftproof::test::limits_test
