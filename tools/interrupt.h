// SPDX-License-Identifier: MIT
// Ctrl-C asks the run to end after the pass it is in; a second one kills the process as usual.
#pragma once

#include <atomic>

namespace draftproof {

const std::atomic<bool>* watch_for_interrupt();

}  // namespace draftproof
