// SPDX-License-Identifier: MIT
// An answer on its way from the engine's thread to a connection's. The engine never waits for the connection: what was
// decoded is kept here until it is taken, so a slow reader delays nobody. An answer has one choice or several (`n`, or
// several prompts).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ref/decoding/trace.h"

namespace draftproof::serve {

/// What one decoding round gave.
struct StreamRound {
  std::vector<Token> tokens;  // the accepted draft tokens, then the target's own
  int drafted = 0;
  int accepted = 0;  // the first of `tokens`
  std::vector<double> logprobs;
  std::vector<std::vector<TokenLogprob>> top_logprobs;
  int predicted = 0;          // the first of the draft tokens, from the request's prediction
  bool beyond_draft = false;  // the text has outgrown the draft's positions
};

struct StreamEnd {
  Finish finish = Finish::unfinished;
  int reused = 0;                 // prompt positions that came from the prefix cache
  bool refused = false;           // the request can never be served, `error` says why
  std::string error;              // empty: none
  std::string draft_remark = {};  // why no draft tokens pay now; empty: they do, or there is no draft
};

struct StreamEvent {
  int choice = 0;
  std::optional<std::vector<PromptLogprob>> prompt;  // what was asked of the prompt, before the rounds
  std::optional<StreamRound> round;
  std::optional<StreamEnd> end;
};

class TokenStream {
 public:
  explicit TokenStream(int choices) : open_(choices), to_start_(choices) {}
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  // The engine.

  /// A choice was admitted to the scheduler: from now on it can only fail.
  void start() {
    const std::lock_guard lock(mutex_);
    --to_start_;
    changed_.notify_all();
  }
  void add(int choice, StreamRound round) {
    const std::lock_guard lock(mutex_);
    events_.push_back({choice, {}, std::move(round), {}});
    changed_.notify_all();
  }
  void add_prompt(int choice, std::vector<PromptLogprob> prompt) {
    const std::lock_guard lock(mutex_);
    events_.push_back({choice, std::move(prompt), {}, {}});
    changed_.notify_all();
  }
  void end(int choice, StreamEnd end) noexcept {
    const std::lock_guard lock(mutex_);
    --open_;
    changed_.notify_all();
    try {
      if (end.refused) refusal_ = end.error;
      events_.push_back({choice, {}, {}, std::move(end)});
    } catch (const std::bad_alloc&) {
      broken_ = true;
    }
  }
  bool cancelled() const noexcept { return cancelled_.load(); }

  // The connection.

  void cancel() noexcept { cancelled_.store(true); }
  /// Waits until every choice was admitted or one was refused. Returns whether that has happened.
  bool wait_for_start(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return to_start_ == 0 || open_ == 0 || refusal_ || broken_; });
  }
  /// Why a choice was refused.
  std::optional<std::string> refusal() const {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }
  /// Waits for events and takes them; none when there were none for so long. Throws std::bad_alloc when one was lost.
  std::vector<StreamEvent> take(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return !events_.empty() || broken_; });
    if (broken_) throw std::bad_alloc();
    return std::exchange(events_, {});
  }
  /// Every choice has ended, and every event was taken.
  bool finished() const {
    const std::lock_guard lock(mutex_);
    return open_ == 0 && events_.empty() && !broken_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StreamEvent> events_;
  std::optional<std::string> refusal_;
  int open_;             // choices that have not ended
  int to_start_;         // choices that were not admitted
  bool broken_ = false;  // there was no memory for the end of a choice
  std::atomic<bool> cancelled_{false};
};

}  // namespace draftproof::serve
