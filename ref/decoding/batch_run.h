// SPDX-License-Identifier: MIT
// Batches in which sequences come and go at stated moments, so that a run can be repeated: for checks and measurements.
#pragma once

#include <span>

#include "ref/decoding/scheduler.h"

namespace draftproof {

struct Scheduled {
  Sequence* sequence;
  CacheCost cost;
  Timetable timetable;
};

/// Runs all sequences, which have no callback of their own, to their end. When every sequence so far has finished, the
/// next one joins early.
void run_batch(Scheduler& scheduler, std::span<const Scheduled> sequences);

}  // namespace draftproof
