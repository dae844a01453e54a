// SPDX-License-Identifier: MIT
#include "kernels/process_limits.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <limits>
#include <thread>

#include "tests/folder.h"

namespace draftproof::process_limits_test {
namespace {

constexpr int all_cpus = std::numeric_limits<int>::max();
constexpr std::uint64_t all_memory = std::numeric_limits<std::uint64_t>::max();

/// A machine's proc/ and sys/, as far as they say what a control group is limited to.
struct Cgroups : ::testing::Test {
  test::Folder root;

  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root.path() / file).parent_path());
    test::put(root.path() / file, text);
  }
  CgroupLimits limits() const { return cgroup_limits(root.path().string()); }
};

TEST_F(Cgroups, WithoutAnyNothingIsLimited) {
  EXPECT_EQ(limits().cpus, all_cpus);
  EXPECT_EQ(limits().memory_left, all_memory);
}

TEST_F(Cgroups, OfVersion2LimitByTheSmallestOfAllLevels) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/cpu.max", "250000 100000\n");
  write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/outer/memory.max", "max\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "1000\n");
  write("sys/fs/cgroup/outer/inner/memory.current", "700\n");
  write("sys/fs/cgroup/outer/inner/memory.stat", "anon 400\nfile 300\ninactive_file 200\nactive_file 100\n");
  EXPECT_EQ(limits().cpus, 3) << "2.5 CPUs";
  EXPECT_EQ(limits().memory_left, 600U) << "what is cached of files can be given back";
}

TEST_F(Cgroups, OfAContainerThatSeesItsOwnGroupAsTheRootAreReadThere) {
  write("proc/self/cgroup", "0::/docker/0123456789\n");
  write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  write("sys/fs/cgroup/memory.max", "536870912\n");
  write("sys/fs/cgroup/memory.current", "1048576\n");
  EXPECT_EQ(limits().cpus, 1);
  EXPECT_EQ(limits().memory_left, 536870912U - 1048576U);
}

TEST_F(Cgroups, OfVersion1AreReadFromTheTreeOfEachController) {
  write("proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a\n2:cpuset:/\n1:name=systemd:/a\n");
  write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
  write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n");
  write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1200\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limits().cpus, 1) << "half a CPU is one thread";
  EXPECT_EQ(limits().memory_left, 0U);
}

TEST_F(Cgroups, FilesThatSayNothingLimitNothing) {
  write("proc/self/cgroup", "nonsense\n0::/a\n7\n");
  write("sys/fs/cgroup/a/cpu.max", "");
  write("sys/fs/cgroup/a/memory.max", "much\n");
  EXPECT_EQ(limits().cpus, all_cpus);
  EXPECT_EQ(limits().memory_left, all_memory);
}

TEST(UsableCpus, AreThoseOfTheAffinity) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_LE(usable_cpus(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cpus(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace draftproof::process_limits_test
