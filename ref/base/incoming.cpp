// SPDX-License-Identifier: MIT
#include "ref/base/incoming.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "ref/base/error.h"

namespace draftproof {
namespace {

constexpr std::size_t bytes_at_once = std::size_t{1} << 16;
constexpr std::chrono::milliseconds nap(20);

[[noreturn]] void fail(const std::string& file, int reason) {
  throw Error(file + ": cannot be read: " + std::generic_category().message(reason));
}

}  // namespace

Incoming::Incoming(const std::string& file)
    : file_(file), descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), bytes_(bytes_at_once) {
  if (descriptor_ < 0) fail(file_, errno);
  try {
    await_writer();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

Incoming::~Incoming() { close(descriptor_); }

/// The first read does not block. It returns 0 bytes when there is no writer yet, and EAGAIN when there is a writer
/// that has not written yet. poll cannot distinguish these two, but it reports POLLHUP when a writer has been there and
/// closed the pipe.
void Incoming::await_writer() {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail(file_, errno);
  ssize_t count = 0;
  for (std::chrono::milliseconds waited(0);; waited += nap) {
    pollfd other_end{descriptor_, POLLIN, 0};
    const bool writer_left = poll(&other_end, 1, 0) == 1 && (other_end.revents & POLLHUP) != 0;
    count = read(descriptor_, bytes_.data(), bytes_.size());
    if (count != 0 || !S_ISFIFO(status.st_mode) || writer_left) break;
    if (waited >= std::chrono::seconds(timeout_seconds)) {
      throw Error(file_ + ": a pipe into which nobody writes; start what writes into it, then try again");
    }
    std::this_thread::sleep_for(nap);
  }
  if (count < 0 && errno != EAGAIN && errno != EINTR) fail(file_, errno);
  if (count > 0) setg(bytes_.data(), bytes_.data(), bytes_.data() + count);
  if (fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK) != 0) fail(file_, errno);
}

Incoming::int_type Incoming::underflow() {
  ssize_t count = 0;
  do {
    count = read(descriptor_, bytes_.data(), bytes_.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail(file_, errno);
  if (count == 0) return traits_type::eof();
  setg(bytes_.data(), bytes_.data(), bytes_.data() + count);
  return traits_type::to_int_type(*gptr());
}

}  // namespace draftproof
