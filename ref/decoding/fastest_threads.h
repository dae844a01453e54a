// SPDX-License-Identifier: MIT
// How many threads decode fastest on this machine. More are not always better: memory can be the limit, two threads
// can share a core, and cores can differ.
#pragma once

#include <span>

#include "ref/models/model.h"

namespace draftproof {

/// Seconds that the same work took with a number of threads.
struct ThreadsTime {
  int threads;
  double seconds;
};

/// Returns the threads of the least time, or fewer that take at most 2 % more: they leave cores to other programs.
/// `times` is not empty.
int fastest_of(std::span<const ThreadsTime> times);

/// Measures with 1, 2, 4, ... and `max` >= 1 threads, in turns: the passes of one row that decode plainly and those of
/// eight that verify draft tokens, after a short text. Takes about a second, longer where a pass takes long. Leaves
/// threads() as it was. Not to be called inside with_workers.
int fastest_threads(Model& target, int max);

}  // namespace draftproof
