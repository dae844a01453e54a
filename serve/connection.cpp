// SPDX-License-Identifier: MIT
#include "serve/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace draftproof::serve {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Returns what happened of `events`; 0 when nothing did for so long.
int wait_for(int file, short events, milliseconds timeout) {
  pollfd state = {file, events, 0};
  while (true) {
    const int found = poll(&state, 1, static_cast<int>(std::max<milliseconds::rep>(0, timeout.count())));
    if (found > 0) return state.revents;
    if (found == 0 || errno != EINTR) return 0;
  }
}

void read_address(const sockaddr_storage& from, std::string& address, int& port) {
  char text[INET6_ADDRSTRLEN] = {};
  if (from.ss_family == AF_INET) {
    const auto* const four = reinterpret_cast<const sockaddr_in*>(&from);
    inet_ntop(AF_INET, &four->sin_addr, text, sizeof(text));
    port = ntohs(four->sin_port);
  } else if (from.ss_family == AF_INET6) {
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(&from);
    inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text));
    port = ntohs(six->sin6_port);
  }
  address = text;
}

constexpr std::size_t piece = 16384;  // bytes that are received at a time

}  // namespace

Connection::Connection(int file, const ConnectionLimits& limits) : file_(file), limits_(limits) {}

Connection::~Connection() { ::close(file_); }

bool Connection::closed() const { return (wait_for(file_, POLLRDHUP, 0ms) & (POLLRDHUP | POLLHUP | POLLERR)) != 0; }

std::string Connection::client() const {
  std::string address;
  int port = 0;
  get_remote_ip_and_port(address, port);
  return address;
}

bool Connection::receive() {
  received_.erase(0, std::exchange(begin_, 0));
  const std::size_t before = received_.size();
  received_.resize(before + piece);
  const ssize_t size = recv(file_, received_.data() + before, piece, MSG_DONTWAIT);
  const bool none_yet = size < 0 && (errno == EAGAIN || errno == EINTR);
  received_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return size > 0 || none_yet;
}

bool Connection::discard() {
  received_.clear();
  begin_ = 0;
  const bool more = receive();
  received_ = {};
  return more;
}

void Connection::send_now(std::string_view bytes) const {
  send(file_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Connection::end_writing() const { shutdown(file_, SHUT_WR); }

void Connection::begin_head(std::size_t size) {
  left_ = size;
  chunks_.reset();
  over_limit_ = false;
  timed_out_ = false;
}

/// The sizes of chunks, and a body that is too long, are read too, up to a point: then the client sees the answer.
void Connection::begin_body(bool chunked) {
  if (chunked) chunks_.emplace();
  left_ = 2 * limits_.body_max;
  until_ = Clock::now() + limits_.body_timeout;
}

void Connection::abort() const { shutdown(file_, SHUT_RDWR); }

bool Connection::is_readable() const {
  return !received().empty() || wait_for(file_, POLLIN, limits_.read_timeout) != 0;
}
bool Connection::is_writable() const {
  return (wait_for(file_, POLLOUT, limits_.write_timeout) & (POLLERR | POLLHUP)) == 0;
}

/// 0, as at the end of the stream, when no more may be read: then cpp-httplib answers.
ssize_t Connection::read(char* to, std::size_t size) {
  if (left_ == 0) {
    over_limit_ = true;
    return 0;
  }
  while (received().empty()) {
    const auto left = std::chrono::duration_cast<milliseconds>(until_ - Clock::now());
    if (wait_for(file_, POLLIN, std::min(left, limits_.read_timeout)) == 0) {
      timed_out_ = true;
      return -1;
    }
    if (!receive()) return 0;
  }
  const std::string_view there = received();
  const std::size_t taken = std::min({size, there.size(), left_});
  there.copy(to, taken);
  begin_ += taken;
  left_ -= taken;
  if (chunks_ && !chunks_->take({to, taken})) return -1;
  return static_cast<ssize_t>(taken);
}

ssize_t Connection::write(const char* from, std::size_t size) {
  while (true) {
    const int found = wait_for(file_, POLLOUT, limits_.write_timeout);
    if ((found & POLLOUT) == 0) return -1;
    const ssize_t sent = send(file_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return sent;
  }
}

void Connection::get_remote_ip_and_port(std::string& address, int& port) const {
  sockaddr_storage from{};
  socklen_t size = sizeof(from);
  if (getpeername(file_, reinterpret_cast<sockaddr*>(&from), &size) == 0) read_address(from, address, port);
}

void Connection::get_local_ip_and_port(std::string& address, int& port) const {
  sockaddr_storage from{};
  socklen_t size = sizeof(from);
  if (getsockname(file_, reinterpret_cast<sockaddr*>(&from), &size) == 0) read_address(from, address, port);
}

}  // namespace draftproof::serve
