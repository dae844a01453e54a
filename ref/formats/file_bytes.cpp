// SPDX-License-Identifier: MIT
#include "ref/formats/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr std::size_t call_bytes_max = std::size_t{1} << 30;  // the system reads less than 2^31 bytes per call

}  // namespace

FileBytes::FileBytes(const std::filesystem::path& file)
    : file_(file), descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) {
    throw Error(file.string() + ": cannot be opened: " + std::generic_category().message(errno));
  }
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw Error(file.string() + ": not a file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

FileBytes::~FileBytes() { ::close(descriptor_); }

void FileBytes::read(std::uint64_t offset, std::size_t bytes, void* to) const {
  REQUIRE(offset <= size_ && bytes <= size_ - offset, "what is read was checked against the size of the file");
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = ::pread(descriptor_, at, std::min(bytes, call_bytes_max), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(file_.string() + ": cannot be read: " + std::generic_category().message(errno));
    if (count == 0) {
      throw Error(file_.string() + ": ends at byte " + std::to_string(offset) + ", but had " + std::to_string(size_) +
                  " bytes when it was opened; let what writes it finish, then try again");
    }
    at += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
}

}  // namespace draftproof
