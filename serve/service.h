// SPDX-License-Identifier: MIT
// Decodes what connections ask, all of it together: a scheduler in a thread of its own. Requests arrive from any
// thread, and their answers go back through serve/token_stream.h.
//
// The text of an answer depends on the request and its seed only: not on the requests beside it, on when they come or
// go, on what the prefix cache holds, or on the draft. The rule is `matching` for that reason.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
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
  StopStrings stops;
  std::vector<Token> shown = {};  // special tokens that are part of the text
};

struct ServiceOptions {
  std::string draft;  // with an open gate, or "none"
  Execution execution;
  SchedulerLimits limits;
  std::optional<DraftCosts> costs;  // by which load decides the lengths of drafts; nullopt: it does not
  int pool_tokens = 0;              // of earlier answers of a tenant, which later ones are looked up in; 0: none
  int waiting_max = 64;             // most choices that wait; more are refused
  double drain_seconds = 30;        // after drain(), what has not ended by then is cancelled
};

class Service {
 public:
  /// Everything outlives the service. `tokenizer` may be null; then no job has stop strings.
  Service(Engine& engine, const Tokenizer* tokenizer, PrefixCache& prefixes, Metrics& metrics, ServiceOptions options);
  ~Service();

  // Any thread.

  enum class Refusal { none, full, draining, never };  // never: more choices than the server takes at all
  struct Submission {
    Refusal refusal = Refusal::none;
    std::shared_ptr<TokenStream> stream;  // nullptr when refused
  };
  Submission submit(Job job);
  /// From now on new jobs are refused, and run() returns when those that were taken have ended.
  void drain();
  bool draining() const noexcept { return draining_.load(); }

  /// Decodes until it is drained. On the thread that made the engine, whose workers it uses.
  void run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Arrival;
  struct Running;

  std::shared_ptr<SuffixPool> pool_of(int tenant);
  void take_arrivals(Scheduler& scheduler);
  void begin(Scheduler& scheduler, const std::shared_ptr<Arrival>& arrival, int choice);
  void tell_prompt(Running& running, const Trace& so_far);
  void end_finished(Scheduler& scheduler);
  void end(std::list<std::unique_ptr<Running>>::iterator& running, StreamEnd end);
  void end_all(Scheduler& scheduler, const std::string& why);
  void pass(Scheduler& scheduler);

  Engine& engine_;
  const Tokenizer* tokenizer_;
  PrefixCache& prefixes_;
  Metrics& metrics_;
  ServiceOptions options_;
  std::atomic<bool> draining_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Arrival>> arrivals_;
  int choices_ = 0;  // arrived or running
  Clock::time_point drain_until_{};

  // The engine's thread only.
  std::list<std::unique_ptr<Running>> running_;
  std::map<int, std::shared_ptr<SuffixPool>> pools_;  // by tenant
};

}  // namespace draftproof::serve
