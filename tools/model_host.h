// SPDX-License-Identifier: MIT
// A model of `draftproof serve`: its files, its service, and, while it is loaded, its weights and its prefix cache.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ref/chat/chat_template.h"
#include "serve/log.h"
#include "serve/metrics.h"
#include "serve/model_rotation.h"
#include "serve/server.h"
#include "tools/opened_model.h"

namespace draftproof {

struct ServeOptions {
  std::string target;
  std::vector<std::string> also;  // more targets
  ByteCount model_memory;         // of all that are loaded; 0: all are
  std::string draft = "none";
  int draft_max = 0;
  std::string template_file;  // empty: the model's own
  LayoutOptions layout;
  NumberOrAuto threads = {.max = threads_max};
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string api_key_file;
  std::vector<std::string> cors;
  std::string log_format = "text";
  int parallel = 32;
  int waiting_max = 256;
  int max_new_tokens = 512;
  int rows_per_pass = 256;
  int reading_rows = 256;
  ByteCount kv_budget;  // 0: what memory has room for
  std::string prefix_folder;
  ByteCount prefix_cache_size = {std::uint64_t{1} << 30};
  bool share_prefixes = false;
  int pool_tokens = 0;
  std::string lookup_file;  // empty: nothing is counted
  int drain_seconds = 30;
};

class ServedPrefixes;
class LearnedLookup;

class ModelHost {
 public:
  /// Opens the files, and reads no weights. Throws Error where something is wrong with them or the options.
  explicit ModelHost(const ServeOptions& options);
  ~ModelHost();

  const std::string& name() const noexcept { return served_.name; }
  /// What it takes while it is loaded.
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// What a server's models share.
  struct Shared {
    std::size_t models;
    std::size_t keys;          // API keys
    std::uint64_t not_loaded;  // bytes that other models will take, which are free now
    serve::Wakeup& wakeup;
    const serve::Log& events;
  };
  /// Loads it for the first time: then all is known of it that is told, and what its caches may have.
  void open(const Shared& shared);
  /// Loads it once more.
  void load();
  /// Frees its weights and its prefix cache, which is saved, as are the counts of its answers; nothing is being
  /// decoded.
  void drop();

  // After open().

  serve::Service& service() noexcept { return *service_; }
  serve::HostedModel hosted() { return {*service_, served_, *metrics_}; }
  void tell_ready(int port) const;

 private:
  void load_engine();
  void describe();
  void begin_service();

  ServeOptions options_;
  OpenedModel opened_;
  std::optional<ChatTemplate> chat_;
  std::uint64_t bytes_ = 0;
  Engine* engine_ = nullptr;  // while it is loaded
  std::string draft_;         // "none" where it cannot be used
  serve::ServedModel served_;
  const serve::Log* events_ = nullptr;
  std::uint64_t prefix_bytes_ = 0;
  std::unique_ptr<ServedPrefixes> prefixes_;  // while it is loaded
  std::unique_ptr<LearnedLookup> lookup_;
  std::optional<serve::Metrics> metrics_;
  std::optional<serve::Service> service_;
};

}  // namespace draftproof
