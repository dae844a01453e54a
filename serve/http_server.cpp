// SPDX-License-Identifier: MIT
#include "serve/http_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <thread>
#include <utility>

#include "ref/base/error.h"
#include "ref/base/require.h"
#include "serve/head.h"

namespace draftproof::serve {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int requests_max = 1000;     // over one connection
constexpr auto full_interval = 100ms;  // how often slow bodies are looked for while requests wait for a thread

const char* phrase_of(int status) {
  switch (status) {
    case 408: return "Request Timeout";
    case 414: return "URI Too Long";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Bad Request";
  }
}

}  // namespace

struct HttpServer::Open {
  Open(int file, const ConnectionLimits& limits) : connection(file, limits) {}

  Connection connection;
  int requests = 0;  // before

  // While it waits.
  bool lingering = false;   // only until the client has read its last answer
  bool begun = false;       // the head has
  std::size_t seen = 0;     // bytes in which the head does not end
  Clock::time_point until;  // then it is given up

  // While it has a thread.
  Clock::time_point since;
  bool answering = false;  // its request was read to its end; guarded by the mutex, as the next one
  bool last = false;       // after the answer it is closed
};

HttpServer::HttpServer(const ConnectionLimits& limits, std::size_t threads, Refusal refusal)
    : limits_(limits), refusal_(std::move(refusal)), threads_(threads), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw Error("the system gives no more files; close some, or raise the limit (ulimit -n)");
  set_keep_alive_max_count(requests_max);
  // cpp-httplib has written by now that the connection stays, or that it is closed because the client wants it so.
  set_post_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    const std::lock_guard lock(mutex_);
    const auto found = asked_.find(&request);
    if (found != asked_.end() && !found->second->last) return;
    response.headers.erase("Keep-Alive");
    response.headers.erase("Connection");
    response.set_header("Connection", "close");
  });
}

HttpServer::~HttpServer() { close(wake_); }

const ListeningSocket& HttpServer::listen_on(const std::string& host, int port) {
  listening_.emplace(host, port);
  svr_sock_ = listening_->file();  // without one, cpp-httplib would break off its answers
  return *listening_;
}

void HttpServer::run() {
  REQUIRE(listening_, "listen_on() comes before run()");
  const auto ending = [this] {
    const std::lock_guard lock(mutex_);
    return ending_;
  };
  while (!ending()) {
    try {
      take_events();
      take_new();
      take_back();
      end_slow_bodies();
    } catch (const std::bad_alloc&) {
      if (!waiting_.empty()) waiting_.pop_front();
    }
  }
  listening_.reset();
  waiting_.clear();
  threads_.shutdown();
}

void HttpServer::end() {
  std::unique_lock lock(mutex_);
  ending_ = true;
  wake();
  const auto answering = [](const Open* open) { return open->answering; };
  for (const Open* const open : served_) {
    if (!open->answering) open->connection.abort();
  }
  changed_.wait_for(lock, limits_.stop_timeout, [&] { return std::ranges::none_of(served_, answering); });
  for (const Open* const open : served_) open->connection.abort();
}

void HttpServer::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));  // fails only where it is readable anyhow
}

/// Waits until something happens, and serves the connections that wait.
void HttpServer::take_events() {
  std::vector<pollfd> files = {{wake_, POLLIN, 0}, {listening_->file(), POLLIN, 0}};
  auto until = Clock::now() + (threads_.queued() > 0 ? full_interval : milliseconds(1min));
  for (const OpenPtr& open : waiting_) {
    files.push_back({open->connection.file(), POLLIN, 0});
    until = std::min(until, open->until);
  }
  const auto timeout = std::chrono::ceil<milliseconds>(until - Clock::now());
  poll(files.data(), files.size(), static_cast<int>(std::max<milliseconds::rep>(0, timeout.count())));
  std::uint64_t woken = 0;
  [[maybe_unused]] const ssize_t read_bytes = read(wake_, &woken, sizeof(woken));
  auto file = files.begin() + 2;
  for (auto open = waiting_.begin(); open != waiting_.end(); ++file) {
    Connection& connection = (*open)->connection;
    bool kept = true;
    if (file->revents != 0) kept = (*open)->lingering ? connection.discard() : connection.receive();
    open = kept && keep(*open) ? std::next(open) : waiting_.erase(open);
  }
}

void HttpServer::take_new() {
  for (std::size_t taken = 0; taken < limits_.waiting_max; ++taken) {  // then those that wait have their turn
    const int file = accept4(listening_->file(), nullptr, nullptr, SOCK_CLOEXEC);
    if (file < 0) {
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (!full) return;  // there is none, or it has gone
      if (waiting_.empty()) {
        std::this_thread::sleep_for(10ms);  // answers will end
        return;
      }
    }
    if (file < 0 || waiting_.size() == limits_.waiting_max) waiting_.pop_front();
    if (file < 0) continue;
    OpenPtr open;
    try {
      open = std::make_shared<Open>(file, limits_);
    } catch (const std::bad_alloc&) {
      close(file);
      throw;
    }
    open->until = Clock::now() + limits_.idle_timeout;
    waiting_.push_back(open);
  }
}

/// What threads have answered waits again. Requests that were sent ahead are here already.
void HttpServer::take_back() {
  std::vector<OpenPtr> returned;
  {
    const std::lock_guard lock(mutex_);
    returned.swap(returned_);
  }
  for (const OpenPtr& open : returned) {
    if (keep(open)) waiting_.push_back(open);
  }
}

/// Returns whether the connection waits on; else a thread has it, or it has waited long enough.
bool HttpServer::keep(const OpenPtr& open) {
  const std::string_view bytes = open->connection.received();
  const auto now = Clock::now();
  if (open->lingering || bytes.empty()) return now < open->until;
  if (!std::exchange(open->begun, true)) open->until = now + limits_.head_timeout;
  const std::size_t size = head_size(bytes, std::exchange(open->seen, bytes.size()));
  if (size > limits_.head_max || (size == 0 && bytes.size() >= limits_.head_max)) {
    const bool path = bytes.find('\n') > limits_.head_max;
    refuse(*open, path ? 414 : 431, path ? "the path is too long" : "the head of the request is too long");
  } else if (size > 0) {
    return !begin_request(open, size);
  } else if (now >= open->until) {
    refuse(*open, 408, "the request took too long to arrive");
  }
  return true;
}

/// The head has come. Returns whether a thread has the connection.
bool HttpServer::begin_request(const OpenPtr& open, std::size_t head) {
  if (const auto fault = fault_of_head(open->connection.received().substr(0, head))) {
    refuse(*open, fault->status, fault->why);
    return false;
  }
  open->connection.begin_head(head);
  if (threads_.enqueue([this, open] { serve(open); })) return true;
  refuse(*open, 503, "the system gives the server no more threads; ask again later");
  return false;
}

/// Says why, and closes the connection once the client has read it.
void HttpServer::refuse(Open& open, int status, std::string_view why) const {
  const std::string body = refusal_(open.connection, status, why);
  open.connection.send_now(
      fmt::format("HTTP/1.1 {} {}\r\nConnection: close\r\nContent-Type: application/json\r\n"
                  "Content-Length: {}\r\n{}\r\n{}",
                  status, phrase_of(status), body.size(), status == 503 ? "Retry-After: 1\r\n" : "", body));
  open.connection.end_writing();
  open.lingering = true;
  open.until = Clock::now() + limits_.linger_timeout;
}

/// While requests wait for a thread, a body has less time.
void HttpServer::end_slow_bodies() {
  if (threads_.queued() == 0) return;
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  for (const Open* const open : served_) {
    if (!open->answering && now - open->since > limits_.full_timeout) open->connection.abort();
  }
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

void HttpServer::close_after(const httplib::Request& request) {
  const std::lock_guard lock(mutex_);
  asked_.at(&request)->last = true;
}

void HttpServer::serve(const OpenPtr& open) {
  Then then = Then::close;
  try {
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
      open->since = Clock::now();
      served_.insert(open.get());
    }
    then = serve_request(*open);
  } catch (const std::bad_alloc&) {  // one request's failure is its own
  }
  if (then == Then::linger) open->connection.end_writing();
  const std::lock_guard lock(mutex_);
  std::erase_if(asked_, [&](const auto& asked) { return asked.second == open.get(); });
  served_.erase(open.get());
  open->answering = false;
  changed_.notify_all();
  if (ending_ || then == Then::close) return;
  open->lingering = then == Then::linger;
  open->begun = false;
  open->seen = 0;
  open->until = Clock::now() + (open->lingering ? limits_.linger_timeout : limits_.idle_timeout);
  try {
    returned_.push_back(open);
  } catch (const std::bad_alloc&) {  // it is closed
  }
  wake();
}

HttpServer::Then HttpServer::serve_request(Open& open) {
  const httplib::Request* asked = nullptr;  // stays so when its head was not understood
  bool closing = false;
  const bool is_last = ++open.requests == requests_max;
  const auto set_up = [&](httplib::Request& request) {
    asked = &request;
    request.ranges.clear();
    request.headers.erase("Accept-Encoding");  // compression would take cores from the engine
    request.headers.erase("Content-Type");     // forms would be parsed, and may have 8 KiB only
    // Without a length all that comes until the client closes would be the body.
    if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) {
      request.set_header("Content-Length", "0");
    }
    open.connection.begin_body(request.has_header("Transfer-Encoding"));
    const std::lock_guard lock(mutex_);
    asked_[&request] = &open;
  };
  const auto process = [&](auto& stream) {
    if constexpr (requires { this->process_request(stream, is_last, closing, set_up); }) {
      return this->process_request(stream, is_last, closing, set_up);
    } else {  // cpp-httplib 0.18 and later wants to be told what it asked the stream for before
      std::string there, here;
      int port_there = 0, port_here = 0;
      stream.get_remote_ip_and_port(there, port_there);
      stream.get_local_ip_and_port(here, port_here);
      return this->process_request(stream, there, port_there, here, port_here, is_last, closing, set_up);
    }
  };
  const bool answered = process(open.connection);
  if (!answered) return Then::close;
  const std::lock_guard lock(mutex_);
  return asked == nullptr || open.last || closing || is_last ? Then::linger : Then::wait;
}

}  // namespace draftproof::serve
