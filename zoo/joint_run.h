// SPDX-License-Identifier: MIT
// Runs a batch of the production scheduler for the oracle.
#pragma once

#include <span>

#include "oracle/plain/subject.h"
#include "ref/decoding/batch_run.h"

namespace draftproof {

/// Runs the sequences to their end. All of them record digests.
JointRun run_jointly(Scheduler& scheduler, std::span<const Scheduled> sequences);

}  // namespace draftproof
