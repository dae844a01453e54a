// SPDX-License-Identifier: MIT
#include "ref/base/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>

#include "ref/base/confinement.h"
#include "ref/base/error.h"

namespace draftproof {
namespace {

bool sent(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool received(int socket, void* to, std::size_t bytes) {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = recv(socket, at, bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

/// A message is sent as its size followed by its bytes. Both return false when the connection fails or the message is
/// too large.
bool sent_message(int socket, std::string_view message) {
  const std::uint64_t size = message.size();
  return sent(socket, {reinterpret_cast<const char*>(&size), sizeof size}) && sent(socket, message);
}

bool received_message(int socket, std::string& message, std::size_t bytes_max) {
  std::uint64_t size = 0;
  if (!received(socket, &size, sizeof size) || size > bytes_max) return false;
  message.resize(static_cast<std::size_t>(size));
  return received(socket, message.data(), message.size());
}

constexpr char good = '+';
constexpr char bad = '-';

/// What the process may take beside several copies of an answer.
constexpr std::size_t memory_beside_answers = std::size_t{256} << 20;

/// Leaves open what the process was given, and nothing else: neither files nor locks of the other process, nor the
/// terminal, where it could say things in that one's name.
void keep_only(int socket) {
  const int nowhere = open("/dev/null", O_RDWR);
  for (int standard = STDIN_FILENO; nowhere >= 0 && standard <= STDERR_FILENO; ++standard) dup2(nowhere, standard);
  close_range(STDERR_FILENO + 1, static_cast<unsigned>(socket) - 1, 0);
  close_range(static_cast<unsigned>(socket) + 1, ~0U, 0);
}

[[noreturn]] void serve(int socket, const std::string& name, const std::function<Subprocess::Handler()>& begin,
                        std::size_t bytes_max, Subprocess::Does does) {
  const bool reads = does == Subprocess::Does::read;
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  signal(SIGINT, SIG_IGN);  // the other process handles it
  keep_only(socket);
  if (reads) confine_resources(4 * bytes_max + memory_beside_answers);
  Subprocess::Handler answer;
  std::string request;
  while (received_message(socket, request, std::size_t{1} << 20)) {
    std::string message;
    try {
      if (!answer) {
        answer = begin();
        if (reads) confine_calls();
      }
      message = good + answer(request);
    } catch (const std::bad_alloc&) {
      message = bad + name +
                (reads ? ": takes more memory to read than its size explains, or than there is"
                       : ": there is not enough memory to write it");
    } catch (const std::exception& wrong) {
      message = bad + std::string(wrong.what());
    }
    if (!sent_message(socket, message)) break;
  }
  _exit(0);
}

}  // namespace

Subprocess::Subprocess(std::string name, const std::function<Handler()>& begin, std::size_t bytes_max,
                       std::chrono::seconds timeout, Does does)
    : name_(std::move(name)), bytes_max_(bytes_max), timeout_(timeout), does_(does) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw Error(name_ + ": cannot create a socket");
  process_ = fork();
  if (process_ == 0) {
    close(ends[0]);
    serve(ends[1], name_, begin, bytes_max_, does_);
  }
  close(ends[1]);
  socket_ = ends[0];
  if (process_ < 0) {
    close(socket_);
    throw Error(name_ + ": cannot create a process to " + (does_ == Does::read ? "read it" : "write it"));
  }
  const timeval limit = {static_cast<time_t>(timeout_.count()), 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

Subprocess::~Subprocess() {
  close(socket_);
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

std::string Subprocess::ask(std::string_view request) {
  std::string message;
  errno = 0;
  if (process_ < 0 || !sent_message(socket_, request) || !received_message(socket_, message, bytes_max_ + 1) ||
      message.empty()) {
    fail();
  }
  if (message[0] != good) throw Error(message.substr(1));
  message.erase(0, 1);
  return message;
}

void Subprocess::fail() {
  const bool reads = does_ == Does::read;
  const std::string who = reads ? "its reader " : "its writer ";
  const std::string so = reads ? "; it is damaged" : "; it was not written, and the file that it replaces is kept";
  if (process_ < 0) throw Error(name_ + ": " + who + "has ended");
  const bool late = errno == EAGAIN || errno == EWOULDBLOCK;
  kill(process_, SIGKILL);  // has no effect if the process ended before; its status then shows why
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  if (late) {
    throw Error(name_ + ": takes more than " + std::to_string(timeout_.count()) + " s to " +
                (reads ? "read" : "write") + so);
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) {
    throw Error(name_ + ": " + who +
                "was stopped when it tried what reading does not need; trust nothing of this file");
  }
  throw Error(name_ + ": " + who +
              (WIFSIGNALED(status) ? "was ended by signal " + std::to_string(WTERMSIG(status))
                                   : "ended with status " + std::to_string(WEXITSTATUS(status))) +
              so);
}

void write_in_subprocess(const std::string& name, const std::function<void()>& write) {
  const auto begin = [&]() -> Subprocess::Handler {
    return [&](const std::string&) {
      write();
      return std::string();
    };
  };
  constexpr std::size_t error_bytes_max = std::size_t{1} << 16;
  Subprocess(name, begin, error_bytes_max, std::chrono::hours(1), Subprocess::Does::write).ask("");
}

}  // namespace draftproof
