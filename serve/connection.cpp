// SPDX-License-Identifier: MIT
#include "serve/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "ref/base/require.h"

namespace draftproof::serve {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Returns what happened of `events`; 0 when nothing did for so long.
int wait_for(int file, short events, milliseconds patience) {
  pollfd state = {file, events, 0};
  while (true) {
    const int found = poll(&state, 1, static_cast<int>(std::max<milliseconds::rep>(0, patience.count())));
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

}  // namespace

Connection::Connection(int file, const ConnectionLimits& limits) : file_(file), limits_(limits) {}

Connection::~Connection() { ::close(file_); }

void Connection::discard_rest() {
  shutdown(file_, SHUT_WR);
  const auto until = Clock::now() + 2s;
  for (std::size_t left = std::size_t{64} << 20; left > 0;) {
    const auto patience = std::chrono::duration_cast<milliseconds>(until - Clock::now());
    if (wait_for(file_, POLLIN, patience) == 0) return;
    const ssize_t size = recv(file_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (size <= 0) return;
    left -= std::min(left, static_cast<std::size_t>(size));
  }
}

bool Connection::closed() const {
  return (wait_for(file_, POLLRDHUP, 0ms) & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool Connection::wait_for_request() const {
  return begin_ < end_ || wait_for(file_, POLLIN, limits_.idle_patience) != 0;
}

void Connection::begin_head() {
  left_ = limits_.head_max;
  patience_ = limits_.head_patience;
  until_ = Clock::now() + limits_.head_patience;
}

/// The sizes of chunks, and a body that is too long, are read too, up to a point: then the client sees the answer.
void Connection::begin_body() {
  left_ = 2 * limits_.body_max;
  patience_ = limits_.read_patience;
  until_ = Clock::now() + limits_.body_patience;
}

void Connection::abort() const { shutdown(file_, SHUT_RDWR); }

bool Connection::is_readable() const { return begin_ < end_ || wait_for(file_, POLLIN, limits_.read_patience) != 0; }
bool Connection::is_writable() const {
  return (wait_for(file_, POLLOUT, limits_.write_patience) & (POLLERR | POLLHUP)) == 0;
}

/// 0, as at the end of the stream, when no more may be read: then cpp-httplib answers.
ssize_t Connection::read(char* to, std::size_t size) {
  if (left_ == 0) {
    over_limit_ = true;
    return 0;
  }
  if (begin_ == end_) {
    const auto left = std::chrono::duration_cast<milliseconds>(until_ - Clock::now());
    if (wait_for(file_, POLLIN, std::min(left, patience_)) == 0) {
      timed_out_ = true;
      return -1;
    }
    const ssize_t received = recv(file_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (received <= 0) return received;
    begin_ = 0;
    end_ = static_cast<std::size_t>(received);
  }
  const std::size_t taken = std::min({size, end_ - begin_, left_});
  std::memcpy(to, buffer_.data() + begin_, taken);
  begin_ += taken;
  left_ -= taken;
  return static_cast<ssize_t>(taken);
}

ssize_t Connection::write(const char* from, std::size_t size) {
  while (true) {
    const int found = wait_for(file_, POLLOUT, limits_.write_patience);
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

void HttpServer::run() {
  listen_after_bind();
  ran_ = true;
}

void HttpServer::end() {
  while (!is_running() && !ran_) std::this_thread::sleep_for(1ms);  // before that, stop() does nothing
  {
    std::unique_lock lock(mutex_);
    ending_ = true;
    const auto answering = [](const Open* open) { return open->answering; };
    for (const Open* const open : open_) {
      if (!open->answering) open->connection.abort();
    }
    changed_.wait_for(lock, limits_.stop_patience, [&] { return std::ranges::none_of(open_, answering); });
    for (const Open* const open : open_) open->connection.abort();
  }
  stop();
}

Connection* HttpServer::find_connection(const httplib::Request& request) const {
  const std::lock_guard lock(mutex_);
  const auto found = asked_.find(&request);
  return found == asked_.end() ? nullptr : &found->second->connection;
}

Connection& HttpServer::connection_of(const httplib::Request& request) const {
  Connection* const found = find_connection(request);
  REQUIRE(found != nullptr, "a request that has a handler came over a connection");
  return *found;
}

void HttpServer::begin_answer(const httplib::Request& request) {
  const std::lock_guard lock(mutex_);
  asked_.at(&request)->answering = true;
}

void HttpServer::close_after(const httplib::Request& request, httplib::Response& response) {
  response.set_header("Connection", "close");
  const std::lock_guard lock(mutex_);
  asked_.at(&request)->last = true;
}

bool HttpServer::process_and_close_socket(socket_t file) {
  Open open(file, limits_);
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return false;
    open_.insert(&open);
  }
  for (std::size_t left = keep_alive_max_count_; left > 0 && open.connection.wait_for_request(); --left) {
    if (!serve_request(open, left == 1)) break;
  }
  const std::lock_guard lock(mutex_);
  open_.erase(&open);
  changed_.notify_all();
  return true;
}

/// Returns whether another request may follow.
bool HttpServer::serve_request(Open& open, bool last) {
  open.connection.begin_head();
  const httplib::Request* asked = nullptr;  // stays so when its head was not understood
  bool closing = false;
  const bool answered = process_request(open.connection, last, closing, [&](httplib::Request& request) {
    asked = &request;
    request.ranges.clear();
    request.headers.erase("Accept-Encoding");  // compression would take cores from the engine
    request.headers.erase("Content-Type");     // forms would be parsed, and may have 8 KiB only
    // Without a length all that comes until the client closes would be the body.
    if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) {
      request.set_header("Content-Length", "0");
    }
    open.connection.begin_body();
    const std::lock_guard lock(mutex_);
    asked_[&request] = &open;
  });
  bool more = asked != nullptr && answered && !closing;
  {
    const std::lock_guard lock(mutex_);
    if (asked != nullptr) asked_.erase(asked);
    open.answering = false;
    changed_.notify_all();
    more = more && !ending_;
  }
  if (asked == nullptr || open.last) open.connection.discard_rest();
  return more && !open.last;
}

}  // namespace draftproof::serve
