// SPDX-License-Identifier: MIT
// The built command, run as a user runs it.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace draftproof::test {

namespace files = std::filesystem;

inline std::string text_of(const files::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void put(const files::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A folder of the test's own, gone afterwards.
class Folder {
 public:
  Folder() {
    std::string name = (files::temp_directory_path() / "draftproof-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { files::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const files::path& path() const { return path_; }

 private:
  files::path path_;
};

struct Outcome {
  int status = -1;  // exit status; 128 + signal when it was killed by one
  std::string out;
  std::string err;
};

inline std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

inline Outcome run_command(const std::vector<std::string>& words) {
  const Folder folder;
  std::string line = quoted(DRAFTPROOF_BINARY);
  for (const std::string& word : words) line += " " + quoted(word);
  line += " >" + quoted((folder.path() / "out").string()) + " 2>" + quoted((folder.path() / "err").string()) +
          " </dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(folder.path() / "out"),
          text_of(folder.path() / "err")};
}

inline std::string fixture(const std::string& name) { return std::string(DRAFTPROOF_SOURCE_DIR) + "/fixtures/" + name; }

}  // namespace draftproof::test
