// SPDX-License-Identifier: MIT
// Splits a range over threads. The only OpenMP in the project: no reduction exists, a thread owns what it writes.
#pragma once

#include <omp.h>

#include "kernels/operations.h"

namespace draftproof {

/// Multiplications below which waking other threads costs more than it saves (a few microseconds).
inline constexpr double parallel_threshold = 100'000;

/// Calls body(begin, end, worker) over consecutive parts that cover [0, count), one per worker, worker < workers_max.
/// `work` is the whole range's cost in multiplications; small ranges, and calls from inside a parallel part, run on the
/// calling thread as body(0, count, 0). The body must give the same bits for every cut and must not throw.
template <class Body>
void parallel_ranges(int count, double work, int workers_max, const Body& body) {
  if (count <= 0) return;
  int workers = threads() < workers_max ? threads() : workers_max;
  workers = workers < count ? workers : count;
  if (workers <= 1 || work < parallel_threshold || omp_in_parallel()) {
    body(0, count, 0);
    return;
  }
#pragma omp parallel for num_threads(workers) schedule(static, 1)
  for (int worker = 0; worker < workers; ++worker) {
    const auto cut = [&](long long part) { return static_cast<int>(part * count / workers); };
    body(cut(worker), cut(worker + 1), worker);
  }
}

}  // namespace draftproof
