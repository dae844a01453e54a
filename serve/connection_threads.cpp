// SPDX-License-Identifier: MIT
#include "serve/connection_threads.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace draftproof::serve {

struct ConnectionThreads::Shared {
  using Task = std::function<void()>;
  struct Idle {
    std::condition_variable woken;
    Task task;
  };

  std::size_t max;
  std::chrono::milliseconds timeout;
  std::mutex mutex;
  std::condition_variable ended;
  std::deque<Task> tasks;   // that wait for a thread
  std::vector<Idle*> idle;  // the one that was busy last at the end
  std::size_t threads = 0;
  bool closing = false;

  void work(Task task) {
    std::unique_lock lock(mutex);
    while (task) {
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      task = next(lock);
    }
    --threads;
    ended.notify_all();
  }

  /// Returns no task when the thread is to end.
  Task next(std::unique_lock<std::mutex>& lock) {
    Task task;
    if (!tasks.empty()) {
      task = std::move(tasks.front());
      tasks.pop_front();
    } else if (!closing) {
      Idle self;
      try {
        idle.push_back(&self);
      } catch (const std::bad_alloc&) {  // then this thread ends
        return nullptr;
      }
      self.woken.wait_for(lock, timeout, [&] { return self.task || closing; });
      std::erase(idle, &self);
      task = std::move(self.task);
    }
    return task;
  }
};

ConnectionThreads::ConnectionThreads(std::size_t max, std::chrono::milliseconds timeout)
    : shared_(std::make_shared<Shared>()) {
  shared_->max = std::max<std::size_t>(max, 1);
  shared_->timeout = timeout;
}

bool ConnectionThreads::enqueue(std::function<void()> task) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->idle.empty()) {
    Shared::Idle& last = *shared_->idle.back();
    shared_->idle.pop_back();
    last.task = std::move(task);
    last.woken.notify_one();
    return true;
  }
  if (shared_->threads < shared_->max) {
    try {
      // The thread has nothing of its first task once that has run.
      std::thread([shared = shared_, task = std::move(task)]() mutable { shared->work(std::move(task)); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++shared_->threads;
    return true;
  }
  shared_->tasks.push_back(std::move(task));
  return true;
}

void ConnectionThreads::shutdown() {
  std::unique_lock lock(shared_->mutex);
  shared_->closing = true;
  for (Shared::Idle* const idle : shared_->idle) idle->woken.notify_one();
  shared_->ended.wait(lock, [&] { return shared_->threads == 0; });
}

std::size_t ConnectionThreads::threads() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->threads;
}

std::size_t ConnectionThreads::queued() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->tasks.size();
}

}  // namespace draftproof::serve
