// SPDX-License-Identifier: MIT
// A line that is rewritten while long work goes on, on a terminal only.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>

namespace draftproof {

class Progress {
 public:
  explicit Progress(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) != 0) {}
  ~Progress() { say(""); }
  void say(const std::string& what) const {
    if (shown_) fmt::print(stderr, "\r\033[K{}", what);
  }

 private:
  bool shown_;
};

}  // namespace draftproof
