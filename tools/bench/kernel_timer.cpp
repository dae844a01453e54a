// SPDX-License-Identifier: MIT
#include "tools/bench/kernel_timer.h"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace draftproof {
namespace {

// Global, because entries of a table take no context argument.
const Kernels* watched = nullptr;
std::atomic<int> inside{0};                // threads inside an entry
std::atomic<std::int64_t> nanoseconds{0};  // with at least one thread inside
std::atomic<std::int64_t> weight_bytes{0};

std::int64_t now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A thread inside an entry. Reading the clock counts as outside: a thread that is descheduled there must not make
/// kernels appear longer.
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

template <auto Entry>
struct Watched;
template <class... Arguments, void (*Kernels::*Entry)(Arguments...) noexcept>
struct Watched<Entry> {
  static void run(Arguments... arguments) noexcept {
    const Inside here;
    (watched->*Entry)(arguments...);
  }
};

/// Replaces the entries that compute.
template <auto... Entries>
void watch_entries(Kernels& table) noexcept {
  ((table.*Entries = Watched<Entries>::run), ...);
}

void multiply(const PackedView& w, const void* x, int rows, float* y, std::ptrdiff_t y_stride, int begin,
              int end) noexcept {
  weight_bytes += static_cast<std::int64_t>(row_bytes(w.format, w.inputs)) * (end - begin);
  Watched<&Kernels::matmul>::run(w, x, rows, y, y_stride, begin, end);
}

}  // namespace

KernelTimer::Seen KernelTimer::watch(const std::function<void()>& work) {
  watched = &original_;
  nanoseconds = 0;
  weight_bytes = 0;
  watch_entries<&Kernels::unpack_row, &Kernels::pack_activations, &Kernels::rms_norm, &Kernels::rope,
                &Kernels::silu_multiply, &Kernels::gelu_multiply, &Kernels::add, &Kernels::attention,
                &Kernels::exponentials>(table_);
  table_.matmul = multiply;
  const std::int64_t start = now();
  work();
  const std::int64_t whole = now() - start;
  table_ = original_;
  return {1e-9 * static_cast<double>(whole), 1e-9 * static_cast<double>(whole - nanoseconds),
          static_cast<double>(weight_bytes)};
}

}  // namespace draftproof
