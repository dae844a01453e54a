// SPDX-License-Identifier: MIT
// The threads that serve connections. There are as many as connections were served at a time lately, because each one
// keeps memory that it has freed: what comes goes to the thread that was busy last, and one that is not needed ends.
#pragma once

#include <httplib.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

namespace draftproof::serve {

class ConnectionThreads final : public httplib::TaskQueue {
 public:
  /// At most `most` threads, at least 1; further tasks wait for one. A thread without a task ends after `patience`.
  explicit ConnectionThreads(std::size_t most, std::chrono::milliseconds patience = std::chrono::seconds(10));

  /// Thread-safe. Where the system gives no more threads, the task waits for one of those that are there, or that begin
  /// with a later task.
  void enqueue(std::function<void()> task) override;
  /// Runs what was enqueued, and returns when all threads have ended. Nothing is enqueued any more.
  void shutdown() override;

  std::size_t threads() const;

 private:
  struct Shared;  // with the threads, the last of which may end after this object
  std::shared_ptr<Shared> shared_;
};

}  // namespace draftproof::serve
