// SPDX-License-Identifier: MIT
#include "kernels/process_limits.h"

#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

namespace draftproof {
namespace {

// Paths are strings: when memory runs out, this is asked for what is left, and libstdc++ 12 frees what it does not own
// when a std::filesystem::path cannot be made.

bool is_folder(const std::string& path) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

/// The first number of a file; nothing when there is none, as in "max 100000".
std::optional<double> number_in(const std::string& file) {
  std::ifstream in(file);
  double number = 0;
  if (!(in >> number)) return std::nullopt;
  return number;
}

/// The number behind `key` in a file of lines "key number"; 0 when there is none.
double number_of(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  std::string name;
  double number = 0;
  while (in >> name >> number) {
    if (name == key) return number;
  }
  return 0;
}

/// A control group in the tree of one controller, and the names of its files there.
class ControlGroup {
 public:
  /// `path`: as /proc/self/cgroup has it. Inside a container it may be that of the host, which is not to be seen there;
  /// then the root of the tree is the container's own group.
  ControlGroup(std::string tree, std::string path) : tree_(std::move(tree)) {
    while (path.ends_with('/')) path.pop_back();
    place_ = tree_ + path;
    if (!is_folder(place_)) place_ = tree_;
  }

  /// Calls visit(folder) for the group and those around it.
  template <class Visit>
  void each_level(const Visit& visit) const {
    for (std::string place = place_;; place.erase(place.rfind('/'))) {
      visit(place + "/");
      if (place.size() <= tree_.size()) return;
    }
  }

 private:
  std::string tree_;
  std::string place_;
};

void limit_cpus(double quota, double period, CgroupLimits& limits) {
  if (quota <= 0 || period <= 0) return;
  const double whole = (quota + period - 1) / period;
  limits.cpus = std::max(1, static_cast<int>(std::min<double>(whole, limits.cpus)));
}

void limit_memory(double max, double used, double cached, CgroupLimits& limits) {
  const double left = std::max(0.0, max - std::max(0.0, used - cached));
  if (left < static_cast<double>(limits.memory_left)) limits.memory_left = static_cast<std::uint64_t>(left);
}

void read_version_2(const ControlGroup& group, CgroupLimits& limits) {
  group.each_level([&](const std::string& at) {
    std::ifstream cpu(at + "cpu.max");
    double quota = 0;
    double period = 0;
    if (cpu >> quota >> period) limit_cpus(quota, period, limits);
    const std::optional<double> max = number_in(at + "memory.max");
    if (!max) return;
    const std::string stat = at + "memory.stat";
    limit_memory(*max, number_in(at + "memory.current").value_or(0),
                 number_of(stat, "inactive_file") + number_of(stat, "active_file"), limits);
  });
}

void read_cpu_version_1(const ControlGroup& group, CgroupLimits& limits) {
  group.each_level([&](const std::string& at) {
    limit_cpus(number_in(at + "cpu.cfs_quota_us").value_or(0), number_in(at + "cpu.cfs_period_us").value_or(0), limits);
  });
}

void read_memory_version_1(const ControlGroup& group, CgroupLimits& limits) {
  group.each_level([&](const std::string& at) {
    const std::optional<double> max = number_in(at + "memory.limit_in_bytes");
    if (!max) return;
    const std::string stat = at + "memory.stat";
    limit_memory(*max, number_in(at + "memory.usage_in_bytes").value_or(0),
                 number_of(stat, "total_inactive_file") + number_of(stat, "total_active_file"), limits);
  });
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  const std::string folder = root.ends_with('/') ? root : root + "/";
  const std::string trees = folder + "sys/fs/cgroup";
  std::ifstream groups(folder + "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/a/b", or "0::/a/b" of version 2
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    if (controllers.str().empty()) read_version_2(ControlGroup(trees, path), limits);
    for (std::string name; std::getline(controllers, name, ',');) {
      if (name == "cpu") read_cpu_version_1(ControlGroup(trees + "/" + name, path), limits);
      if (name == "memory") read_memory_version_1(ControlGroup(trees + "/" + name, path), limits);
    }
  }
  return limits;
}

int usable_cpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) cpus = CPU_COUNT(&allowed);
  return std::max(1, std::min(cpus, cgroup_limits().cpus));
}

}  // namespace draftproof
