// SPDX-License-Identifier: MIT
// The ranks that mpirun starts. A build without DRAFTPROOF_MPI has none.
#pragma once

#include "kernels/ranks.h"

namespace draftproof {

/// Returns the ranks that this process was started as one of; nullptr when it was started alone. From the first call on
/// the process ends with a sentence and status 3 when another rank is gone. Throws Error under mpirun in a build
/// without MPI.
Ranks* process_ranks();

/// Ends the communication; of all ranks, after follow() or dismiss().
void leave_ranks();

}  // namespace draftproof
