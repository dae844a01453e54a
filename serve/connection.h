// SPDX-License-Identifier: MIT
// The connections of cpp-httplib's server, which on its own lets a client take any amount of memory and time, and
// forgets requests that were sent ahead. Here
//
//   - the head of a request has a largest size and a time to arrive, and so has its body, chunked or not
//   - a body is the bytes that were sent: nothing is decompressed, and no content type has a parser of its own
//   - ranges and compression of answers are not offered, which HTTP leaves to a server
//   - after a request that was not understood or not read to its end the connection is closed
//   - a handler can tell whether its client is still there
#pragma once

#include <httplib.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace draftproof::serve {

/// What a connection may take, and for how long.
struct ConnectionLimits {
  std::size_t head_max = std::size_t{64} << 10;
  std::size_t body_max = std::size_t{8} << 20;
  std::chrono::milliseconds head_patience = std::chrono::seconds(10);    // from its first byte to its last
  std::chrono::milliseconds body_patience = std::chrono::seconds(120);   // the same
  std::chrono::milliseconds read_patience = std::chrono::seconds(10);    // of a body, from one byte to the next
  std::chrono::milliseconds write_patience = std::chrono::seconds(30);   // of a client that does not read its answer
  std::chrono::milliseconds idle_patience = std::chrono::seconds(5);     // from one request to the next
  std::chrono::milliseconds stop_patience = std::chrono::seconds(10);    // for answers on their way when all is ended
};

/// One connection, in the thread that serves it.
class Connection final : public httplib::Stream {
 public:
  Connection(int file, const ConnectionLimits& limits);
  ~Connection() override;  // closes it, without a wait
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Whether the client has closed it.
  bool closed() const;
  /// Whether the request is longer than it may be, or took too long.
  bool over_limit() const noexcept { return over_limit_; }
  bool timed_out() const noexcept { return timed_out_; }

  bool wait_for_request() const;
  void begin_head();
  void begin_body();
  /// Reads what still comes, for a while. (A socket that is closed with unread bytes resets the connection, and its
  /// client may never see the answer.)
  void discard_rest();
  /// Ends it from another thread.
  void abort() const;

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* to, std::size_t size) override;
  ssize_t write(const char* from, std::size_t size) override;
  void get_remote_ip_and_port(std::string& address, int& port) const override;
  void get_local_ip_and_port(std::string& address, int& port) const override;
  /// Not the socket: some builds of cpp-httplib refuse those above 1023, for a call that is not made here.
  socket_t socket() const override { return 0; }

 private:
  using Clock = std::chrono::steady_clock;

  int file_;
  const ConnectionLimits& limits_;
  std::array<char, 16384> buffer_;
  std::size_t begin_ = 0;  // of what was received and not read
  std::size_t end_ = 0;
  std::size_t left_ = 0;   // bytes that may still be read
  Clock::time_point until_{};
  std::chrono::milliseconds patience_{};
  bool over_limit_ = false;
  bool timed_out_ = false;
};

class HttpServer : public httplib::Server {
 public:
  explicit HttpServer(const ConnectionLimits& limits) : limits_(limits) {}

  void run();
  /// Lets answers go on to their ends, and stops. run() was called, by another thread.
  void end();

  /// The connection of a request, for its handlers.
  Connection& connection_of(const httplib::Request& request) const;
  /// The same; nullptr when the request was not understood.
  Connection* find_connection(const httplib::Request& request) const;
  /// The request was read to its end: end() waits for its answer.
  void begin_answer(const httplib::Request& request);
  /// The request was not read to its end: after its answer the connection is closed.
  void close_after(const httplib::Request& request, httplib::Response& response);

 private:
  struct Open {
    explicit Open(int file, const ConnectionLimits& limits) : connection(file, limits) {}
    Connection connection;
    bool answering = false;
    bool last = false;
  };

  bool process_and_close_socket(socket_t file) override;
  bool serve_request(Open& open, bool last);

  const ConnectionLimits limits_;
  std::atomic<bool> ran_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Open*> open_;
  std::map<const httplib::Request*, Open*> asked_;
  bool ending_ = false;
};

}  // namespace draftproof::serve
