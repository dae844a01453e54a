// SPDX-License-Identifier: MIT
#include "tools/bench/kernel_timer.h"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace draftproof {
namespace {

// Entries have no place for a context.
const Kernels* watched = nullptr;
std::atomic<int> inside{0};               // threads
std::atomic<std::int64_t> nanoseconds{0};  // in which there were any

std::int64_t now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A thread inside an entry. Looking at the clock is outside, so that a thread that loses its core there cannot make
/// kernels longer than they are.
class Inside {
 public:
  Inside() noexcept {
    if (inside.fetch_add(1) == 0) nanoseconds -= now();
  }
  ~Inside() {
    const std::int64_t end = now();
    if (inside.fetch_sub(1) == 1) nanoseconds += end;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

template <auto RecordedDraw>
struct Watched;
template <class... Arguments, void (*Kernels::*RecordedDraw)(Arguments...) noexcept>
struct Watched<RecordedDraw> {
  static void run(Arguments... arguments) noexcept {
    const Inside here;
    (watched->*RecordedDraw)(arguments...);
  }
};

/// The entries that compute.
template <auto... Entries>
void watch_entries(Kernels& table) noexcept {
  ((table.*Entries = Watched<Entries>::run), ...);
}

}  // namespace

KernelTimer::Seconds KernelTimer::watch(const std::function<void()>& work) {
  watched = &original_;
  nanoseconds = 0;
  watch_entries<&Kernels::unpack_row, &Kernels::pack_activations, &Kernels::matmul, &Kernels::rms_norm, &Kernels::rope,
                &Kernels::silu_multiply, &Kernels::add, &Kernels::attention, &Kernels::exponentials>(table_);
  const std::int64_t start = now();
  work();
  const std::int64_t whole = now() - start;
  table_ = original_;
  return {1e-9 * static_cast<double>(whole), 1e-9 * static_cast<double>(whole - nanoseconds)};
}

}  // namespace draftproof
