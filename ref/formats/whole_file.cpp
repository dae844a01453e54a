// SPDX-License-Identifier: MIT
#include "ref/formats/whole_file.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string>
#include <system_error>

#include "ref/base/error.h"

namespace draftproof {
namespace {

constexpr std::string_view mark = ".partial-";

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : ".";
}

/// Whether another process is; this one writes nothing yet.
bool is_running(pid_t process) { return process != getpid() && (kill(process, 0) == 0 || errno == EPERM); }

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
  remove_leftovers(folder_of(file), file.filename().string());
  const Partial partial(file.string() + std::string(mark) + std::to_string(getpid()));
  write(partial.path);
  put_in_place(partial.path, file);
}

void put_in_place(const std::filesystem::path& partial, const std::filesystem::path& file) {
  // The bytes are synced before the rename; otherwise a power failure in between would leave an empty file.
  if (!synced(partial, O_RDONLY) || std::rename(partial.c_str(), file.c_str()) != 0) {
    throw Error(file.string() + ": cannot be written; check the folder and the disk");
  }
  if (!synced(folder_of(file), O_RDONLY | O_DIRECTORY)) {
    throw Error(file.string() + ": is written, but its folder cannot be synced to disk");
  }
}

void remove_leftovers(const std::filesystem::path& folder, std::string_view name) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string found = entry.path().filename().string();
    const std::size_t at = found.rfind(mark);
    if (at == std::string::npos || (!name.empty() && std::string_view(found).substr(0, at) != name)) continue;
    const char* const digits = found.c_str() + at + mark.size();
    pid_t process = 0;
    const auto number = std::from_chars(digits, found.c_str() + found.size(), process);
    const bool whole = number.ec == std::errc() && number.ptr == found.c_str() + found.size() && process > 0;
    if (whole && !is_running(process)) std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace draftproof
