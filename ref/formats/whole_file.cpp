// SPDX-License-Identifier: MIT
#include "ref/formats/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  return folder.empty() ? "." : folder;
}

[[noreturn]] void fail(const std::filesystem::path& file) {
  throw Error(printable(file.string()) + ": cannot be written: " + std::generic_category().message(errno));
}

constexpr std::string_view mark = ".partial-";

/// Syncs the content of a file, or the names in a folder, to disk.
bool synced(const std::filesystem::path& path, int flags) {
  const int file = open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = fsync(file) == 0;
  return close(file) == 0 && done;
}

/// True when nobody else holds the lock. It ends with the last process that has the descriptor, and is independent of
/// what the HDF5 library locks.
bool locked(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  return fcntl(file, F_OFD_SETLK, &whole) == 0;
}

}  // namespace

PartialFile::PartialFile(const std::filesystem::path& file) : file_(file) {
  static std::atomic<unsigned> count = 0;
  remove_leftovers(folder_of(file), file.filename().string());
  while (lock_ < 0) {
    path_ = folder_of(file) /
            (file.filename().string() + std::string(mark) + std::to_string(getpid()) + "-" + std::to_string(++count));
    lock_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (lock_ < 0 && errno == EEXIST) continue;  // of another machine's process, or of one that was killed
    if (lock_ < 0) fail(file);
    // Another writer can have taken it for a left one before it was locked. Some file systems know no locks.
    struct stat now {};
    if (!locked(lock_) && (errno == EAGAIN || errno == EACCES)) close(std::exchange(lock_, -1));
    else if (fstat(lock_, &now) == 0 && now.st_nlink == 0) close(std::exchange(lock_, -1));
  }
}

PartialFile::~PartialFile() {
  if (!path_.empty()) unlink(path_.c_str());
  close(lock_);
}

void PartialFile::take_place() {
  // The bytes are synced before the rename; otherwise a power failure in between would leave an empty file.
  if (!synced(path_, O_RDONLY) || std::rename(path_.c_str(), file_.c_str()) != 0) fail(file_);
  path_.clear();
  if (!synced(folder_of(file_), O_RDONLY | O_DIRECTORY)) {
    throw Error(file_.string() + ": is written, but its folder cannot be synced to disk");
  }
}

void remove_leftovers(const std::filesystem::path& folder, std::string_view name) {
  std::error_code failure;
  std::filesystem::directory_iterator entry(folder, failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    const std::string found = entry->path().filename().string();
    const std::size_t at = found.rfind(mark);
    if (at == std::string::npos || (!name.empty() && found.substr(0, at) != name)) continue;
    const std::string numbers = found.substr(at + mark.size());
    const bool ours =
        !numbers.empty() && numbers[0] != '-' && numbers.find_first_not_of("0123456789-") == std::string::npos;
    const int left = ours ? open(entry->path().c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW) : -1;
    if (left < 0) continue;
    if (locked(left)) unlink(entry->path().c_str());
    close(left);
  }
}

void replace_whole(const std::filesystem::path& file, const std::function<void(const std::filesystem::path&)>& write) {
  PartialFile partial(file);
  write(partial.path());
  partial.take_place();
}

}  // namespace draftproof
