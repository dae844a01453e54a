// SPDX-License-Identifier: MIT
// How long no thread is inside a kernel while some work is done: a copy of a table notes, while work is watched, when
// its entries are entered and left. At all other times the copy is the table, so what is not watched costs nothing.
//
// Nothing is taken off: calling the other threads, waiting for them when none is inside an entry, and the watching
// itself count as outside, as does all that is no entry of the table, storing keys and values included.
#pragma once

#include <functional>

#include "kernels/kernels.h"

namespace draftproof {

class KernelTimer {
 public:
  explicit KernelTimer(const Kernels& table) : original_(table), table_(table) {}
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

  /// For what is to be watched.
  const Kernels& table() const noexcept { return table_; }

  struct Seconds {
    double whole;
    double outside;  // of all entries
  };
  /// Of work(), which uses table(). One at a time in a process.
  Seconds watch(const std::function<void()>& work);

 private:
  const Kernels& original_;
  Kernels table_;
};

}  // namespace draftproof
