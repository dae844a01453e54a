// SPDX-License-Identifier: MIT
// Takes from this process what reading the bytes of a stranger does not need. None of it can be taken back, and what
// was open before stays open.
#pragma once

#include <cstddef>

namespace draftproof {

/// From here on this process writes no file, makes no process and leaves no core; its memory grows by at most
/// `memory_max` bytes, and it ends after an hour of computing.
void confine_resources(std::size_t memory_max) noexcept;

/// From here on this process computes, has memory that is not code, uses descriptors that are open, and ends. Whatever
/// opens or looks up a file fails with EACCES, since libraries try that in passing; any other call of the system ends
/// the process with SIGSYS. Where the kernel filters no calls, no descriptor can be opened, and that is all.
void confine_calls() noexcept;

}  // namespace draftproof
