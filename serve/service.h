// SPDX-License-Identifier: MIT
// Decodes what connections ask of a model, all of it together: a scheduler in the engine's thread, which the services
// of several models share. Requests arrive from any thread, and their answers go back through serve/token_stream.h.
// They wait while the model is not loaded; serve/model_rotation.h says when it is.
//
// The text of an answer depends on the request and its seed only: not on the requests beside it, on when they come or
// go, on what the prefix cache holds, or on the draft. The rule is `matching` for that reason.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ref/decoding/engine.h"
#include "ref/decoding/stop_at_strings.h"
#include "serve/metrics.h"
#include "serve/token_stream.h"

namespace draftproof::serve {

/// What is to be decoded.
struct Job {
  std::vector<Request> choices;  // each with another `sequence`
  std::uint64_t seed = 0;
  bool speculative = true;             // false: plain decoding, which gives the same text
  std::vector<Token> prediction = {};  // what the answers are expected to be like
  int tenant = 0;                      // who asks: the number of the API key
  std::string cache_salt = {};         // texts with different ones share nothing in the prefix cache
  StopStrings stops;
  std::vector<Token> shown = {};  // special tokens that are part of the text
};

struct ServiceOptions {
  std::string draft;  // with an open gate, or "none"
  Execution execution;
  SchedulerLimits limits;
  std::optional<DraftCosts> costs;  // by which load decides the lengths of drafts; nullopt: it does not
  /// Called for every choice that was decoded to its end, in the engine's thread; it throws nothing.
  std::function<void(const Trace& answer)> on_answer = {};
  int pool_tokens = 0;          // of earlier answers of a tenant, which later ones are looked up in; 0: none
  bool share_prefixes = false;  // tenants share the prefix cache
  int waiting_max = 64;         // most choices that wait; more are refused
  double drain_seconds = 30;    // after drain(), what has not ended by then is cancelled
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

/// Wakes the engine's thread when there is something to do.
class Wakeup {
 public:
  void notify() {
    const std::lock_guard lock(mutex_);
    notified_ = true;
    changed_.notify_all();
  }
  /// Returns after the next notify(), or at once when there was one since the last call.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return notified_; });
    notified_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;
};

class Service {
 public:
  /// Everything outlives the service. `tokenizer` may be null; then no job has stop strings.
  Service(const Tokenizer* tokenizer, Metrics& metrics, Wakeup& wakeup, ServiceOptions options);
  ~Service();

  // Any thread.

  enum class Refusal { none, full, draining, never };  // never: more choices than the server takes at all
  struct Submission {
    Refusal refusal = Refusal::none;
    std::shared_ptr<TokenStream> stream;  // nullptr when refused
  };
  Submission submit(Job job);
  /// From now on new jobs are refused, and those that were taken have so many seconds to end.
  void drain();
  bool draining() const noexcept { return draining_.load(); }
  /// Whether there is an engine now.
  bool loaded() const noexcept { return loaded_.load(); }
  /// The most choices that are decoded together.
  int parallel() const noexcept { return options_.limits.running_max; }

  // The thread that made the engine.

  using Clock = std::chrono::steady_clock;

  /// Decodes with this engine until unload(); it and the prefix cache live until then.
  void load(Engine& engine, PrefixCache& prefixes);
  /// Nothing is being decoded.
  void unload();
  /// Takes jobs that have arrived, unless `hold`, and runs one pass; loaded. Returns whether there is more to do.
  /// Without memory choices fail.
  bool step(bool hold = false);
  /// Whether anything is being decoded.
  bool busy() const noexcept { return !running_.empty(); }
  /// Since when the first job waits that was not taken; nullopt: none does. Ends those whose clients have gone, or for
  /// which there is no time left.
  std::optional<Clock::time_point> waiting_since();
  /// Ends all jobs that were not taken.
  void fail_waiting(const char* why);
  /// Whether it is drained, and nothing is left to do.
  bool finished() const;

 private:
  struct Arrival;
  struct Running;

  std::shared_ptr<SuffixPool> pool_of(int tenant);
  std::string prefix_owner_of(const Job& job) const;
  std::vector<std::shared_ptr<Arrival>> taken_arrivals();
  void end_waiting(Arrival& arrival, Finish finish, const char* why) noexcept;
  void begin(const std::shared_ptr<Arrival>& arrival, int choice);
  void tell_prompt(Running& running, const Trace& so_far);
  void learn(int tenant, const Trace& answer);
  void end_finished();
  std::string draft_remark(const Job& job) const;
  void end(std::list<std::unique_ptr<Running>>::iterator& running, StreamEnd end) noexcept;
  void tell_end(Arrival& arrival, int choice, StreamEnd end) noexcept;
  void end_all(const char* why);
  void pass();

  const Tokenizer* tokenizer_;
  Metrics& metrics_;
  Wakeup& wakeup_;
  ServiceOptions options_;
  std::atomic<bool> draining_{false};
  std::atomic<bool> loaded_{false};

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Arrival>> arrivals_;
  std::atomic<int> choices_ = 0;  // arrived or running
  Clock::time_point drain_until_{};

  // The engine's thread only.
  Engine* engine_ = nullptr;
  std::optional<DraftLengths> lengths_;
  std::optional<Scheduler> scheduler_;  // while there is an engine
  std::list<std::unique_ptr<Running>> running_;
  std::map<int, std::shared_ptr<SuffixPool>> pools_;  // by tenant
};

}  // namespace draftproof::serve
