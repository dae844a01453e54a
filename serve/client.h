// SPDX-License-Identifier: MIT
// The HTTP side of who asks: cpp-httplib's client behind one class. What bodies mean is for its user.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace draftproof::serve {

struct Reply {
  int status = 0;
  std::string body;         // empty where events were taken instead
  std::string retry_after;  // of the header; empty: none
  bool closed = false;      // the taker of the events wanted no more
};

/// Cuts a stream of server-sent events into their data.
class EventReader {
 public:
  /// Takes the data of one event. Returns whether more are wanted.
  using Take = std::function<bool(std::string_view data)>;

  explicit EventReader(Take take) : take_(std::move(take)) {}
  /// Returns whether more bytes are wanted.
  bool read(std::string_view bytes);

 private:
  bool end_of_line();

  Take take_;
  std::string line_;
  std::string data_;  // of the event that is being read
};

/// Of one server. Each request has a connection of its own. One thread at a time.
class Client {
 public:
  static constexpr std::size_t reply_bytes_max = std::size_t{1} << 28;

  /// `url`: "http://HOST:PORT" or "https://HOST:PORT", with or without the "/v1" that OpenAI's clients want at its end.
  /// `limit`: of one request, from its first byte to the last of its answer. Throws Error for another `url`.
  Client(const std::string& url, const std::string& api_key, std::chrono::seconds limit);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Both throw Error when the server cannot be reached, the connection breaks, the time is over, or an answer has more
  /// than `reply_bytes_max`.
  Reply get(const std::string& path);
  /// `take`: where it is set and the status is 200, receives the events; once it wants no more, the connection is
  /// closed.
  Reply post(const std::string& path, const std::string& body, const EventReader::Take& take = {});

  /// "http://HOST:PORT"
  const std::string& address() const noexcept { return address_; }

 private:
  class Http;
  std::string address_;
  std::unique_ptr<Http> http_;
};

/// Returns a POST of JSON as a line for a shell. `with_key`: the key is in $KEY.
std::string curl_line(const std::string& url, const std::string& body, bool with_key);

}  // namespace draftproof::serve
