// SPDX-License-Identifier: MIT
// The threads that serve connections. There are as many as connections were served at a time lately, because each one
// keeps memory that it has freed: what comes goes to the thread that was busy last, and one that is not needed ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

namespace draftproof::serve {

class ConnectionThreads {
 public:
  /// At most `max` threads, at least 1; further tasks wait for one. A thread without a task ends after `timeout`.
  explicit ConnectionThreads(std::size_t max, std::chrono::milliseconds timeout = std::chrono::seconds(10));

  // Thread-safe.

  /// Returns whether the task will run; it will not where the system does not give the thread that it needs.
  [[nodiscard]] bool enqueue(std::function<void()> task);
  /// Runs what was enqueued, and returns when all threads have ended. Nothing is enqueued any more.
  void shutdown();

  std::size_t threads() const;
  /// Tasks that wait, because there are as many threads as there may be and all are busy.
  std::size_t queued() const;

 private:
  struct Shared;  // with the threads, the last of which may end after this object
  std::shared_ptr<Shared> shared_;
};

}  // namespace draftproof::serve
