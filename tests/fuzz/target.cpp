// SPDX-License-Identifier: MIT
#include "tests/fuzz/target.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>

namespace draftproof::fuzz {

std::filesystem::path fixtures() {
  const std::filesystem::path beside = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fixtures";
  return std::filesystem::is_directory(beside) ? beside : std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures";
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder, const std::vector<std::string>& ends) {
  constexpr std::uintmax_t bytes_max = std::uintmax_t{1} << 20;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const auto fits = [&](const std::string& end) { return name.ends_with(end); };
    if (entry.is_regular_file() && entry.file_size() <= bytes_max && std::ranges::any_of(ends, fits)) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

std::string bytes_of_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

namespace {

class ScratchFolder {
 public:
  ScratchFolder() {
    const bool in_memory = std::filesystem::is_directory("/dev/shm");
    path_ = (in_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) /
            ("draftproof-fuzz-" + std::to_string(getpid()));
    std::filesystem::create_directory(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

std::filesystem::path scratch() {
  static const ScratchFolder folder;
  return folder.path();
}

std::filesystem::path scratch(const std::string& name, const std::string& bytes) {
  struct Written {
    std::filesystem::path path;
    int descriptor;
  };
  static std::map<std::string, Written> files;  // stay open and keep their pages: the system takes longer than a parser
  auto file = files.find(name);
  if (file == files.end()) {
    const std::filesystem::path path = scratch() / name;
    std::filesystem::create_directories(path.parent_path());
    file = files.emplace(name, Written{path, open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)}).first;
  }
  const auto& [path, descriptor] = file->second;
  const bool whole = pwrite(descriptor, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  if (!whole || ftruncate(descriptor, static_cast<off_t>(bytes.size())) != 0) {
    throw std::system_error(errno, std::generic_category(), path.string());
  }
  return path;
}

}  // namespace draftproof::fuzz
