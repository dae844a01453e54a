// SPDX-License-Identifier: MIT
// The first Ctrl-C ends a run after its current pass; the second kills the process as usual.
#pragma once

#include <atomic>

namespace draftproof {

/// Installs the handler and clears the flag. Returns the flag that the first Ctrl-C sets.
const std::atomic<bool>* watch_for_interrupt();
/// From now on the first Ctrl-C kills the process.
void stop_watching_for_interrupt();

}  // namespace draftproof
