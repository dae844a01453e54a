// SPDX-License-Identifier: MIT
// Lines of standard input. On a terminal they can be edited and called back, where libedit is installed.
#pragma once

#include <optional>
#include <string>

namespace draftproof {

class LineEditor {
 public:
  /// Opens libedit by name when standard input and output are a terminal, so that nothing else needs it.
  LineEditor();

  bool on_terminal() const noexcept { return terminal_; }
  /// Prints "> " on a terminal, and returns the next line; nothing at the end of the input.
  std::optional<std::string> next();

 private:
  bool terminal_;
  char* (*readline_)(const char* prompt) = nullptr;  // nullptr: lines are read as they come
  int (*add_history_)(const char* line) = nullptr;
};

}  // namespace draftproof
