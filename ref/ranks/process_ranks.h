// SPDX-License-Identifier: MIT
// The ranks that mpirun starts. A build without DRAFTPROOF_MPI has none.
#pragma once

#include "kernels/ranks.h"
#include "ref/ranks/mail.h"

namespace draftproof {

/// Returns the ranks that this process was started as one of; nullptr when it was started alone. From the first call on
/// the process ends with a sentence and status 3 when another rank is gone. Throws Error under mpirun in a build
/// without MPI.
Ranks* process_ranks();

/// What the same ranks send to each other one by one, where they compute no model together; nullptr as above.
Mail* process_mail();
/// The variables of the environment by which a process learns that it is a rank. One that a rank starts, and that is
/// none, must not have them.
std::span<const char* const> variables_of_ranks() noexcept;

/// Ends the communication; of all ranks, after follow() or dismiss().
void leave_ranks();

}  // namespace draftproof
