// SPDX-License-Identifier: MIT
// The HTTP side of a service: cpp-httplib behind one class.
//
//     GET  /                        a page for chats
//     GET  /v1/models               POST /v1/completions   POST /v1/chat/completions
//     POST /tokenize  /detokenize   GET /health            GET /metrics
//
// Each connection has a thread, which never holds up the engine or another connection. When a client goes away, its
// answer is cancelled before the next round. Every request has an id, in its answer's header X-Request-Id and in the
// log; one that came with such a header keeps it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/log.h"
#include "serve/metrics.h"
#include "serve/question.h"
#include "serve/service.h"

namespace draftproof::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                    // 0: any that is free
  std::vector<std::string> api_keys;  // empty: anyone may ask
  int connections = 64;               // that are served at a time; more wait
};

class Server {
 public:
  /// Everything outlives the server.
  Server(Service& service, const ServedModel& model, const Metrics& metrics, const Log& log, ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Takes the port, and returns it. Throws Error when that cannot be done.
  int bind();
  /// Serves until stop(); bind() came before.
  void listen();
  /// Answers that have begun go on to their ends.
  void stop();

 private:
  class Http;
  std::unique_ptr<Http> http_;
};

}  // namespace draftproof::serve
