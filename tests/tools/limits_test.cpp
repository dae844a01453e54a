// SPDX-License-Identifier: MIT
// Limits of the process, as a container or a batch system sets them. Exit status 1 means that a bug is proven, so no
// limit may ever end a command with it. tests/faults has the limits of memory.
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

TEST_F(Limits, OnOneCpuTakeOneThread) {
  const Outcome outcome = run_command({"generate", fixture("models/tale-small"), "-p", "Once", "-n", "4", "--stats"},
                                      "taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("with 1 thread,"));
}

}  // namespace
}  // namespace draftproof::test::limits_test
