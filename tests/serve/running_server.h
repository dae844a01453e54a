// SPDX-License-Identifier: MIT
// A server in this process, on the shipped models, with the engine on a thread of its own.
#pragma once

#include <httplib.h>

#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "ref/chat/chat_template.h"
#include "ref/models/models.h"
#include "serve/model_rotation.h"
#include "serve/server.h"

namespace draftproof::serve {

inline const std::string models = std::string(DRAFTPROOF_SOURCE_DIR) + "/fixtures/models/";

struct RunOptions {
  std::string target = models + "tale-target";
  std::string draft = "dflash:" + models + "tale-dflash";
  SchedulerLimits limits = {.rows_per_pass = 64, .running_max = 8};
  int waiting_max = 64;
  std::string host = "127.0.0.1";
  std::vector<std::string> api_keys = {};
  int connections = 64;
  std::vector<std::string> cors = {};
  std::size_t prefix_bytes = std::size_t{1} << 26;
  double drain_seconds = 20;
  bool chat = true;
  std::string chat_template = {};  // in place of the model's
  int pool_tokens = 0;
  bool share_prefixes = false;
};

class RunningServer {
 public:
  explicit RunningServer(const RunOptions& options = {}) {
    std::promise<int> bound;
    thread_ = std::thread([this, options, &bound] { run(options, bound); });
    port_ = bound.get_future().get();
  }
  ~RunningServer() {
    drain();
    thread_.join();
  }

  int port() const { return port_; }
  /// Once: then the service is gone.
  void drain() {
    if (!std::exchange(drained_, true)) service_->drain();
  }

  httplib::Client client() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(600);  // longer than any test waits, on a slow machine too
    return client;
  }
  httplib::Result post(const std::string& path, const nlohmann::json& body) const {
    return client().Post(path, body.dump(), "application/json");
  }
  /// The whole answer.
  nlohmann::json answer(const std::string& path, const nlohmann::json& body) const {
    const auto result = post(path, body);
    return result ? nlohmann::json::parse(result->body) : nlohmann::json();
  }
  /// The chunks of a stream, without [DONE], which comes last.
  std::vector<nlohmann::json> stream(const std::string& path, nlohmann::json body) const {
    body["stream"] = true;
    const auto result = post(path, body);
    std::vector<nlohmann::json> chunks;
    if (!result) return chunks;
    std::string text = result->body;
    bool done = false;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find("\n\n", at);
      if (end == std::string::npos || !text.substr(at).starts_with("data: ") || done) return {};
      const std::string data = text.substr(at + 6, end - at - 6);
      done = data == "[DONE]";
      if (!done) chunks.push_back(nlohmann::json::parse(data));
      at = end + 2;
    }
    return done ? chunks : std::vector<nlohmann::json>();
  }
  /// The number at a line of /metrics.
  double metric(const std::string& name) const {
    const std::string text = client().Get("/metrics")->body;
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? 0 : std::stod(text.substr(at + name.size() + 2));
  }

 private:
  void run(const RunOptions& options, std::promise<int>& bound) {
    ModelFiles files(options.target);
    const Tokenizer tokenizer = Tokenizer::load(files.target());
    auto chat = ChatTemplate::find(files.target());
    if (!options.chat_template.empty()) chat.emplace(options.chat_template, "the template of the test", jinja::Dict());
    Engine engine(files, LoadOptions(kernels_by_name("")));
    ServedModel model;
    model.name = "tale";
    model.draft = options.draft;
    model.fingerprint = engine.numerics();
    model.tokenizer = &tokenizer;
    model.chat = options.chat && chat ? &*chat : nullptr;
    model.tokens = std::make_shared<const TokenTrie>(tokenizer, engine.target().vocabulary());
    model.stops = read_stop_tokens(files.target());
    model.vocabulary = engine.target().vocabulary();
    model.context = engine.target().context();
    model.max_new_tokens = 40;
    ServiceOptions service_options;
    service_options.draft = options.draft;
    service_options.limits = options.limits;
    service_options.waiting_max = options.waiting_max;
    service_options.pool_tokens = options.pool_tokens;
    service_options.share_prefixes = options.share_prefixes;
    service_options.drain_seconds = options.drain_seconds;
    PrefixCache prefixes(options.prefix_bytes);
    Metrics metrics({"dflash"});
    Wakeup wakeup;
    Service service(&tokenizer, metrics, wakeup, service_options);
    service.load(engine, prefixes);
    ModelRotation rotation({{service, 0, [&] { service.load(engine, prefixes); }, [&] { service.unload(); }}}, 0);
    const Log log(LogFormat::none);
    Server server({{service, model, metrics}}, log,
                  {options.host, 0, options.api_keys, options.connections, options.cors});
    service_ = &service;
    bound.set_value(server.start());
    rotation.run(wakeup);
    server.stop();
  }

  Service* service_ = nullptr;
  bool drained_ = false;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace draftproof::serve
