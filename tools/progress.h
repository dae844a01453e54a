// SPDX-License-Identifier: MIT
// A line that is rewritten while long work goes on, on a terminal only.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "ref/models/weight_loader.h"

namespace draftproof {

class Progress {
 public:
  explicit Progress(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) != 0) {}
  ~Progress() { write(""); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(const std::string& what) { write(said_ = what); }

  /// Shows how far loading is once it takes longer than half a second, then what was said before again. The progress
  /// outlives what loads.
  LoadingObserver observer() {
    return [this](const std::filesystem::path& checkpoint, std::uint64_t done, std::uint64_t all) {
      constexpr std::chrono::milliseconds patience(500);
      const auto now = std::chrono::steady_clock::now();
      if (done == 0) loading_since_ = now;
      if (done == all) {
        write(said_);
      } else if (now - loading_since_ >= patience) {
        write(fmt::format("loading {}: {} of {} MB", checkpoint.string(), done / 1'000'000, all / 1'000'000));
      }
    };
  }

 private:
  void write(const std::string& line) {
    if (shown_ && line != line_) fmt::print(stderr, "\r\033[K{}", line);
    line_ = line;
  }

  bool shown_;
  std::string said_;
  std::string line_;  // what stands there
  std::chrono::steady_clock::time_point loading_since_;
};

}  // namespace draftproof
