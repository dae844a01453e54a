// SPDX-License-Identifier: MIT
// The HTTP side of the services of one model or several: cpp-httplib behind one class.
//
//     GET  /                        a page for chats
//     GET  /v1/models[/ID]          POST /v1/completions   POST /v1/chat/completions
//     POST /tokenize  /detokenize   GET /health            GET /metrics
//
// Each request has a thread, which never holds up the engine or another connection. When a client goes away, its answer
// is cancelled before the next round. Every request has an id, in its answer's header X-Request-Id and in the
// log; one that came with such a header keeps it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/completion_request.h"
#include "serve/log.h"
#include "serve/metrics.h"
#include "serve/service.h"

namespace draftproof::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                    // 0: any that is free
  std::vector<std::string> api_keys;  // empty: anyone may ask
  int connections = 64;               // whose requests are answered at a time; more wait
  std::vector<std::string> cors;      // origins whose pages may ask and read; "*": all
};

/// A model that requests may name. It outlives the server.
struct HostedModel {
  Service& service;
  const ServedModel& model;
  const Metrics& metrics;
};

class Server {
 public:
  /// `models`: at least one; a request that names none means the first, and where there is one only, any name means it.
  /// The log outlives the server. Throws Error when the options are wrong.
  Server(std::vector<HostedModel> models, const Log& log, ServerOptions options);
  ~Server();  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Takes the port, returns it, and serves in threads of its own. Throws Error when that cannot be done.
  int start();
  /// Whether this machine alone can ask; start() came before.
  bool on_loopback() const;
  /// Returns when answers that have begun are told to their ends. Does nothing when it was not started.
  void stop();

 private:
  class Http;
  std::unique_ptr<Http> http_;
};

}  // namespace draftproof::serve
