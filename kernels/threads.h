// SPDX-License-Identifier: MIT
// Splits a range over threads. A thread owns what it writes and no reduction exists, so no cut can change a bit.
//
// One pool, of OpenMP's threads: `with_workers` opens the only parallel region of the project, in which one thread
// leads, running ordinary code, and the others wait for ranges. Each thread has a share of a range, always the same one
// (which keeps a weight in the caches and the memory of the core that works on it), and takes a part of what is left of
// it at a time: smaller and smaller parts, so that all threads end together. Then it takes what the others have left.
// So a thread that comes late, or not at all because another program has its core, delays nobody. A waiting thread
// spins for a short while, then sleeps.
#pragma once

#include <functional>

namespace draftproof {

/// Threads used by every operation of the process, at least 1. Until set, as many as the CPUs that the process may
/// use (process_limits.h). Fewer from the moment on that the system refuses to start so many. Bits never depend on it.
void set_threads(int count) noexcept;
int threads();

/// Runs `lead` on the calling thread with all others at hand for the operations in it: opening them costs tens of
/// microseconds, so a whole text is decoded in one call. Inside another call, or with one thread, just runs `lead`.
/// What `lead` throws comes out of it. Operations outside of any such call open one each.
///
/// On all threads floats are rounded to nearest and no exception traps, whatever a library has set; what was set comes
/// back with the end of the call.
void with_workers(const std::function<void()>& lead);

/// Multiplications below which calling other threads costs more than it saves (a microsecond or so).
inline constexpr double parallel_threshold = 50'000;

/// What a thread does with a part of the range, and which thread it is.
struct Body {
  void (*run)(const void* context, int begin, int end, int worker);
  const void* context;
};

/// The untyped form of the function below.
void run_ranges(int count, int grain, int workers_max, const Body& body);

/// Calls body(begin, end, worker) over disjoint ranges that cover [0, count), on threads 0 <= worker < workers_max,
/// each thread several times one after the other, `grain` or more at a time but for the last. `work` is the whole
/// range's cost in multiplications; small ranges, and calls from inside a body, run as body(0, count, 0) on the calling
/// thread. The body must give the same bits for every cut and must not throw.
template <class Function>
void parallel_ranges(int count, double work, int workers_max, const Function& body, int grain = 1) {
  if (count <= 0) return;
  if (work < parallel_threshold || count == 1 || workers_max == 1) {
    body(0, count, 0);
    return;
  }
  const auto run = [](const void* context, int begin, int end, int worker) {
    (*static_cast<const Function*>(context))(begin, end, worker);
  };
  run_ranges(count, grain, workers_max, {run, &body});
}

/// The same over a row's inputs, in ranges as Kernels::pack_activations requires them: body(begin, end).
template <class Function>
void for_inputs(int inputs, double work, const Function& body) {
  constexpr int block = 256;
  parallel_ranges((inputs + block - 1) / block, work, inputs,
                  [&](int begin, int end, int) { body(begin * block, end * block < inputs ? end * block : inputs); });
}

/// The same over rows: body(begin, end).
template <class Function>
void for_rows(int rows, double work, const Function& body) {
  parallel_ranges(rows, work, rows, [&](int begin, int end, int) { body(begin, end); });
}

}  // namespace draftproof
