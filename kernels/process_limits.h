// SPDX-License-Identifier: MIT
// What this process may use of the machine. In a container that is less than the machine has: CPU affinity and control
// groups (versions 1 and 2) limit it, and what the kernel reports of the whole machine does not say so.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace draftproof {

struct CgroupLimits {
  int cpus = std::numeric_limits<int>::max();  // rounded up: 1.5 CPUs keep 2 threads busy most of the time
  /// Bytes until the limit, as the kernel counts them: without what is cached of files, which it gives back.
  std::uint64_t memory_left = std::numeric_limits<std::uint64_t>::max();
};

/// Reads the limits of the control groups that this process is in, each with those around it; the largest numbers where
/// there are none. `root`: the folder with proc/ and sys/.
CgroupLimits cgroup_limits(const std::string& root = "/");

/// The CPUs that this process can use at once, by its affinity and its control groups; at least 1.
int usable_cpus();

}  // namespace draftproof
