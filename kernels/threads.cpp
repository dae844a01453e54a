// SPDX-License-Identifier: MIT
#include "kernels/threads.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cstdint>
#include <exception>
#include <latch>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels/process_limits.h"

namespace draftproof {
namespace {

std::atomic<int> thread_count{0};  // 0: not known yet

/// How often a waiting thread looks before it sleeps: some tens of microseconds, longer than the leader is alone
/// between two operations of a pass, shorter than anything a neighbor would notice.
constexpr int looks = 2000;

void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// The part of the range that one thread takes from first; others may take from it.
struct alignas(64) Share {
  std::atomic<int> next{0};
  int end = 0;

  /// Takes a quarter of what is left, in whole grains; returns false when nothing is.
  bool take(int grain, int& from, int& to) noexcept {
    from = next.load(std::memory_order_relaxed);
    do {
      const int left = end - from;
      if (left <= 0) return false;
      const int some = left / (4 * grain) * grain;
      to = from + (some > grain ? some : grain < left ? grain : left);
    } while (!next.compare_exchange_weak(from, to, std::memory_order_relaxed));
    return true;
  }
};

class Crew {
 public:
  explicit Crew(int size) : shares_(static_cast<std::size_t>(size)) {}

  int size() const noexcept { return static_cast<int>(shares_.size()); }

  /// The leader's side: the whole range is done when it returns.
  void run(int count, int grain, int workers, const Body& body) noexcept {
    grain_ = grain;
    workers_ = workers;
    body_ = body;
    const long long grains = count / grain + (count % grain > 0 ? 1 : 0);
    const auto first_of = [&](int worker) {
      return static_cast<int>(std::min<long long>(grains * worker / workers * grain, count));
    };
    for (int w = 0; w < workers; ++w) {
      shares_[w].next.store(first_of(w), std::memory_order_relaxed);
      shares_[w].end = first_of(w + 1);
    }
    open_.store(true);
    turn_.fetch_add(1);
    if (sleepers_.load() > 0) turn_.notify_all();
    work(0);
    // Whoever comes from now on finds it closed; whoever came before is waited for. Both sides use sequential
    // consistency: either the worker sees it closed, or the leader sees the worker inside.
    open_.store(false);
    while (inside_.load() > 0) pause();
  }

  /// The others' side: until dismissed.
  void serve(int worker) noexcept {
    std::uint32_t seen = 0;
    for (;;) {
      seen = wait_for_turn(seen);
      if (dismissed_.load(std::memory_order_relaxed)) return;
      inside_.fetch_add(1);
      if (open_.load() && worker < workers_) work(worker);
      inside_.fetch_sub(1);
    }
  }

  void dismiss() noexcept {
    dismissed_.store(true, std::memory_order_relaxed);
    turn_.fetch_add(1);
    turn_.notify_all();
  }

 private:
  std::uint32_t wait_for_turn(std::uint32_t seen) noexcept {
    for (int look = 0; look < looks; ++look) {
      const std::uint32_t turn = turn_.load(std::memory_order_acquire);
      if (turn != seen) return turn;
      pause();
    }
    sleepers_.fetch_add(1);
    turn_.wait(seen);
    sleepers_.fetch_sub(1);
    return turn_.load(std::memory_order_acquire);
  }

  void work(int worker) noexcept {
    for (int i = 0; i < workers_; ++i) {
      Share& share = shares_[(worker + i) % workers_];
      int from;
      int to;
      while (share.take(grain_, from, to)) body_.run(body_.context, from, to, worker);
    }
  }

  // The work at hand; written by the leader while nobody is inside.
  int grain_ = 1;
  int workers_ = 0;
  Body body_{};
  std::vector<Share> shares_;

  alignas(64) std::atomic<std::uint32_t> turn_{0};  // changes when there is something to do
  std::atomic<int> sleepers_{0};
  std::atomic<bool> dismissed_{false};
  alignas(64) std::atomic<bool> open_{false};
  std::atomic<int> inside_{0};
};

/// The floating-point environment that every process begins with.
class DefaultFloats {
 public:
  DefaultFloats() noexcept {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloats() { std::fesetenv(&before_); }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
  std::fenv_t before_;
};

/// How many threads, the calling one among them, can be there at once: `wanted`, or what a limit leaves of them.
int startable(int wanted) {
  std::latch all_tried(1);
  std::vector<std::thread> started;
  started.reserve(static_cast<std::size_t>(wanted));
  try {
    while (static_cast<int>(started.size()) + 1 < wanted) started.emplace_back([&] { all_tried.wait(); });
  } catch (const std::system_error&) {  // a limit of the user, the control group or the address space
  }
  all_tried.count_down();
  const int count = static_cast<int>(started.size()) + 1;
  for (std::thread& one : started) one.join();
  if (count > 1) usleep(1000);  // the system counts a thread for a moment after it was joined
  return count;
}

/// OpenMP's library ends the process, with status 1, when it cannot start a thread. So it is never asked for more than
/// were seen to start.
void require_startable() {
  static std::atomic<int> seen{1};
  const int wanted = threads();
  if (wanted <= seen.load()) return;
  const int possible = startable(wanted);
  seen.store(possible);
  if (possible < wanted) set_threads(possible);
}

/// The crew that the calling thread leads, and whether it is in the middle of a range.
thread_local Crew* crew = nullptr;
thread_local bool working = false;

}  // namespace

void set_threads(int count) noexcept { thread_count.store(count < 1 ? 1 : count, std::memory_order_relaxed); }

int threads() {
  const int count = thread_count.load(std::memory_order_relaxed);
  if (count > 0) return count;
  // Kept, because the operating system is asked through files, which takes microseconds.
  int unknown = 0;
  thread_count.compare_exchange_strong(unknown, usable_cpus());
  return thread_count.load(std::memory_order_relaxed);
}

void with_workers(const std::function<void()>& lead) {
  if (crew != nullptr || omp_in_parallel()) {
    lead();
    return;
  }
  const DefaultFloats floats;
  require_startable();
  if (threads() == 1) {
    lead();
    return;
  }
  Crew made(threads());
  std::exception_ptr failure;  // none may leave the region by itself
#pragma omp parallel num_threads(made.size())
  {
    const int worker = omp_get_thread_num();
    if (worker > 0) {
      const DefaultFloats floats_of_worker;
      working = true;
      made.serve(worker);
      working = false;
    } else {
      crew = &made;
      try {
        lead();
      } catch (...) {
        failure = std::current_exception();
      }
      crew = nullptr;
      made.dismiss();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void run_ranges(int count, int grain, int workers_max, const Body& body) {
  if (working || (crew == nullptr && threads() == 1)) {
    body.run(body.context, 0, count, 0);
    return;
  }
  if (crew == nullptr) {
    with_workers([&] { run_ranges(count, grain, workers_max, body); });
    return;
  }
  int workers = crew->size() < workers_max ? crew->size() : workers_max;
  const int grains = count / grain + (count % grain > 0 ? 1 : 0);
  workers = workers < grains ? workers : grains;
  working = true;
  crew->run(count, grain, workers, body);
  working = false;
}

}  // namespace draftproof
