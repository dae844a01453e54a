// SPDX-License-Identifier: MIT
#include "tools/interrupt.h"

#include <csignal>

namespace draftproof {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

extern "C" void on_interrupt(int) {
  interrupted.store(true);
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

const std::atomic<bool>* watch_for_interrupt() {
  interrupted.store(false);
  std::signal(SIGINT, on_interrupt);
  return &interrupted;
}

void stop_watching_for_interrupt() { std::signal(SIGINT, SIG_DFL); }

}  // namespace draftproof
