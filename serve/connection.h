// SPDX-License-Identifier: MIT
// A connection as cpp-httplib's server reads and writes it, but with an end to what a client may send and to the time
// that it may take. Its head has come before cpp-httplib sees it (serve/http_server.h).
#pragma once

#include <httplib.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "serve/chunks.h"

namespace draftproof::serve {

/// What a connection may take, and for how long.
struct ConnectionLimits {
  std::size_t head_max = std::size_t{64} << 10;
  std::size_t body_max = std::size_t{8} << 20;
  std::size_t waiting_max = 1024;  // connections without a whole head; one more, and the oldest is closed
  std::chrono::milliseconds head_timeout = std::chrono::seconds(10);   // from its first byte to its last
  std::chrono::milliseconds body_timeout = std::chrono::seconds(120);  // the same
  std::chrono::milliseconds full_timeout = std::chrono::seconds(1);    // the same, while requests wait for a thread
  std::chrono::milliseconds read_timeout = std::chrono::seconds(10);   // of a body, from one byte to the next
  std::chrono::milliseconds write_timeout = std::chrono::seconds(30);  // of a client that does not read its answer
  std::chrono::milliseconds idle_timeout = std::chrono::seconds(5);    // before a request's first byte
  std::chrono::milliseconds linger_timeout = std::chrono::seconds(2);  // for a client to read why it is refused
  std::chrono::milliseconds stop_timeout = std::chrono::seconds(10);   // for answers on their way when all is ended
};

/// One thread at a time, abort() aside.
class Connection final : public httplib::Stream {
 public:
  Connection(int file, const ConnectionLimits& limits);
  ~Connection() override;  // closes it, without a wait
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int file() const noexcept { return file_; }
  /// Whether the client has closed it.
  bool closed() const;
  /// Whether the request is longer than it may be, or took too long.
  bool over_limit() const noexcept { return over_limit_; }
  bool timed_out() const noexcept { return timed_out_; }
  /// The client's address.
  std::string client() const;

  // Without a wait.

  /// Takes what has come. Returns whether the client may send more.
  bool receive();
  /// What has come and was not read.
  std::string_view received() const noexcept { return std::string_view(received_).substr(begin_); }
  /// Forgets what has come. Returns whether the client may send more. (A socket that is closed with unread bytes resets
  /// the connection, and its client may never see the answer.)
  bool discard();
  /// Sends as much as fits.
  void send_now(std::string_view bytes) const;
  void end_writing() const;

  // For cpp-httplib.

  /// The next `size` bytes are a head, which has come.
  void begin_head(std::size_t size);
  /// `chunked`: it comes in chunks.
  void begin_body(bool chunked);
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
  std::string received_;
  std::size_t begin_ = 0;  // of what was not read
  std::size_t left_ = 0;   // bytes that may still be read
  std::optional<Chunks> chunks_;
  Clock::time_point until_{};
  bool over_limit_ = false;
  bool timed_out_ = false;
};

}  // namespace draftproof::serve
