// SPDX-License-Identifier: MIT
// What a server counts, as text in the format of Prometheus. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ref/decoding/scheduler.h"

namespace draftproof::serve {

/// How often a value was at most each of these bounds.
class Histogram {
 public:
  void add(double seconds, std::uint64_t times = 1);
  std::string text(const std::string& name, const std::string& help) const;

 private:
  static constexpr std::array<double, 14> bounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                    0.25,  0.5,    1,     2.5,  5,     10,   30};
  std::array<std::uint64_t, bounds.size() + 1> counts_{};  // the last: above all bounds
  double sum_ = 0;
};

class Metrics {
 public:
  /// `stages`: the names of the drafts that are asked in order.
  explicit Metrics(std::vector<std::string> stages) : stages_(std::move(stages)) {}

  void count_answer(const std::string& outcome);
  void count_prompt(int tokens, int reused);
  void add_first_token(double seconds);
  /// Tokens that came together, so long after the ones before.
  void add_tokens(int tokens, double seconds);
  void add_rounds(const Trace& trace);
  void count_load();
  void count_drop();
  /// `counts`: since the model was loaded.
  void set_queue(int running, int waiting, const SchedulerCounts& counts);

  void set_draft_speedup(double speedup);

  std::string text() const;
  /// Choices that have caches now.
  int running() const {
    const std::lock_guard lock(mutex_);
    return running_;
  }

 private:
  std::string name_of_stage(const Trace& trace, std::size_t stage) const;

  mutable std::mutex mutex_;
  std::vector<std::string> stages_;
  std::map<std::string, std::uint64_t> answers_;  // by outcome
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t reused_tokens_ = 0;
  std::uint64_t output_tokens_ = 0;
  std::uint64_t beyond_draft_ = 0;
  std::map<std::pair<std::string, std::size_t>, std::pair<std::uint64_t, std::uint64_t>> drafted_;  // [stage, depth]
  struct OfStage {
    std::uint64_t asked = 0;
    std::uint64_t silent = 0;
    std::uint64_t failed = 0;
    std::uint64_t positions = 0;
    std::uint64_t passed = 0;
  };
  std::map<std::string, OfStage> drafts_;
  Histogram first_token_;
  Histogram between_tokens_;
  std::uint64_t loads_ = 0;
  bool loaded_ = false;
  double draft_speedup_ = 0;
  int running_ = 0;
  int waiting_ = 0;
  SchedulerCounts counts_;
  SchedulerCounts counts_before_;  // of earlier loads
};

}  // namespace draftproof::serve
