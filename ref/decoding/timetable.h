// SPDX-License-Identifier: MIT
// Batches in which sequences come and go at stated moments, so that a run can be repeated: for checks and measurements.
#pragma once

#include <span>

#include "ref/decoding/scheduler.h"

namespace draftproof {

/// Moments are counted in passes of the scheduler and in rounds of the sequence, from 1 on; `never` for what does not
/// happen.
struct Timetable {
  static constexpr int never = 0;
  int joins_after = 0;          // passes
  int preempted_after = never;  // rounds; its caches are taken once
  int cancelled_after = never;  // rounds
};

struct Scheduled {
  Sequence* sequence;
  CacheCost cost;
  Timetable timetable;
};

/// Runs all sequences, which have no callback of their own, to their end. When every sequence so far has finished, the
/// next one joins early.
void run_batch(Scheduler& scheduler, std::span<const Scheduled> sequences);

}  // namespace draftproof
