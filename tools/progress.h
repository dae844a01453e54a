// SPDX-License-Identifier: MIT
// A status line that is rewritten during long work. Shown on a terminal only.
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

  /// Replaces the line; an empty text removes it.
  void show(const std::string& text) { write(text_ = text); }

  /// Returns an observer that shows how much is loaded when loading takes longer than half a second, and restores the
  /// line at its end. This object must outlive it.
  LoadingObserver observer() {
    return [this](const std::filesystem::path& checkpoint, std::uint64_t done, std::uint64_t all) {
      constexpr std::chrono::milliseconds delay(500);
      const auto now = std::chrono::steady_clock::now();
      if (done == 0) loading_since_ = now;
      if (done == all) {
        write(text_);
      } else if (now - loading_since_ >= delay) {
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
  std::string text_;
  std::string line_;  // on the terminal now
  std::chrono::steady_clock::time_point loading_since_;
};

}  // namespace draftproof
