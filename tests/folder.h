// SPDX-License-Identifier: MIT
// Files that tests write and read, and a folder to keep them in.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace draftproof::test {

namespace files = std::filesystem;

inline std::string text_of(const files::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void put(const files::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

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

/// As one word of a shell's line.
inline std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace draftproof::test
