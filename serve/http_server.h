// SPDX-License-Identifier: MIT
// cpp-httplib's server behind a door of its own: on its own it gives every connection a thread, lets a client take any
// amount of memory and time, and forgets requests that were sent ahead. Here
//
//   - one thread takes connections and waits for the heads of their requests; a connection has another thread from the
//     time that its head is whole (serve/head.h says when it is sound) until the answer is told, so those that say
//     nothing, or half a head, hold up nobody
//   - heads and bodies have a largest size and a time to arrive, chunked or not
//   - a body is the bytes that were sent: nothing is decompressed, and no content type has a parser of its own
//   - ranges and compression of answers are not offered, which HTTP leaves to a server
//   - after a request that was not understood or not read to its end the connection is closed
//   - a handler can tell whether its client is still there
#pragma once

#include <httplib.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serve/connection.h"
#include "serve/connection_threads.h"
#include "serve/listening_socket.h"

namespace draftproof::serve {

class HttpServer : public httplib::Server {
 public:
  /// Returns the JSON that tells a client why no handler will have its request.
  using Refusal = std::function<std::string(const Connection& connection, int status, std::string_view why)>;

  /// `threads`: connections whose requests are read and answered at a time; more wait.
  HttpServer(const ConnectionLimits& limits, std::size_t threads, Refusal refusal);
  ~HttpServer() override;

  /// Takes the port; 0: any that is free. Throws Error.
  const ListeningSocket& listen_on(const std::string& host, int port);
  /// Serves until end(); listen_on() came before.
  void run();
  /// Takes no more requests, lets answers go on to their ends, and has run() return. From another thread.
  void end();

  /// The connection of a request, for its handlers.
  Connection& connection_of(const httplib::Request& request) const;
  /// The same; nullptr when the request was not understood.
  Connection* find_connection(const httplib::Request& request) const;
  /// The request was read to its end: end() waits for its answer.
  void begin_answer(const httplib::Request& request);
  /// The request was not read to its end: after its answer the connection is closed.
  void close_after(const httplib::Request& request);

 private:
  using Clock = std::chrono::steady_clock;
  struct Open;
  using OpenPtr = std::shared_ptr<Open>;
  enum class Then { wait, linger, close };  // after an answer; linger: until the client has read it

  // The thread of run().
  void take_events();
  void take_new();
  void take_back();
  bool keep(const OpenPtr& open);
  bool begin_request(const OpenPtr& open, std::size_t head);
  void refuse(Open& open, int status, std::string_view why) const;
  void end_slow_bodies();

  // The thread of a connection.
  void serve(const OpenPtr& open);
  Then serve_request(Open& open);

  void wake() const;

  const ConnectionLimits limits_;
  Refusal refusal_;
  ConnectionThreads threads_;
  int wake_;  // becomes readable when the thread of run() has something to do
  std::optional<ListeningSocket> listening_;
  std::list<OpenPtr> waiting_;  // the thread of run() only; the oldest first

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Open*> served_;         // by a thread
  std::vector<OpenPtr> returned_;  // from one
  std::map<const httplib::Request*, Open*> asked_;
  bool ending_ = false;
};

}  // namespace draftproof::serve
