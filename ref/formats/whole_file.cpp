// SPDX-License-Identifier: MIT
#include "ref/formats/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <system_error>

#include "ref/base/error.h"

namespace draftproof {
namespace {

/// Syncs the content of a file, or the names in a folder, to disk.
bool synced(const std::filesystem::path& path, int flags) {
  const int file = open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = fsync(file) == 0;
  return close(file) == 0 && done;
}

/// A temporary file, removed by the destructor unless it was renamed.
class Partial {
 public:
  explicit Partial(std::filesystem::path path) : path(std::move(path)) {}
  ~Partial() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  const std::filesystem::path path;
};

}  // namespace

void replace_whole(const std::filesystem::path& file, const std::function<void(const std::filesystem::path&)>& write) {
  const Partial partial(file.string() + ".partial-" + std::to_string(getpid()));
  write(partial.path);
  put_in_place(partial.path, file);
}

void put_in_place(const std::filesystem::path& partial, const std::filesystem::path& file) {
  // The bytes are synced before the rename; otherwise a power failure in between would leave an empty file.
  if (!synced(partial, O_RDONLY) || std::rename(partial.c_str(), file.c_str()) != 0) {
    throw Error(file.string() + ": cannot be written; check the folder and the disk");
  }
  const std::filesystem::path folder = file.parent_path();
  if (!synced(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY)) {
    throw Error(file.string() + ": is written, but its folder cannot be synced to disk");
  }
}

}  // namespace draftproof
