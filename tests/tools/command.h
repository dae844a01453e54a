// SPDX-License-Identifier: MIT
// The built command, run as a user runs it.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/folder.h"

namespace draftproof::test {

struct Outcome {
  int status = -1;  // exit status; 128 + signal when it was killed by one
  std::string out;
  std::string err;
};

using Words = std::vector<std::string>;

inline Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// `environment`: "NAME=value", or anything else a shell accepts before a command. `input`: the redirection of standard
/// input.
inline Outcome run_command(const Words& words, const std::string& environment = "",
                           const std::string& input = "</dev/null") {
  const Folder folder;
  std::string line = environment + " " + quoted(DRAFTPROOF_BINARY);
  for (const std::string& word : words) line += " " + quoted(word);
  line +=
      " >" + quoted((folder.path() / "out").string()) + " 2>" + quoted((folder.path() / "err").string()) + " " + input;
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(folder.path() / "out"),
          text_of(folder.path() / "err")};
}

inline std::string fixture(const std::string& name) { return std::string(DRAFTPROOF_SOURCE_DIR) + "/fixtures/" + name; }

}  // namespace draftproof::test
