// SPDX-License-Identifier: MIT
// A trial of a campaign, made by this program in a process of its own: a trial that crashes or takes all memory ends
// itself and not the campaign, and no trial sees what another one left behind. It ends with the process that began it,
// however that ends.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace draftproof {

/// What a trial came to.
struct TrialResult {
  std::string report;      // of `verify --json`; empty: there is no verdict
  std::string reproducer;  // case.json; empty: there is none
  std::string complaint;   // why there is no verdict
};

class TrialProcess {
 public:
  TrialProcess();
  /// Ends what runs.
  ~TrialProcess();
  TrialProcess(const TrialProcess&) = delete;
  TrialProcess& operator=(const TrialProcess&) = delete;

  bool runs() const noexcept { return process_ > 0; }
  /// Begins one; none runs. `words`: of the command line. `reproduces`: the command writes a smallest case.
  void start(const std::vector<std::string>& words, bool reproduces);
  /// Returns what it came to; nullopt: it still runs.
  std::optional<TrialResult> poll();
  void end();

 private:
  std::filesystem::path folder_;  // of its files, in the system's folder of temporary ones
  int process_ = -1;
};

}  // namespace draftproof
