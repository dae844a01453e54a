// SPDX-License-Identifier: MIT
// Measures how long no thread is inside a kernel during some work, and which weights it multiplies with. A copy of a
// kernel table records when its entries are entered and left, but only while work is watched; at other times it equals
// the table and costs nothing.
//
// Nothing is subtracted: waking the other threads, waiting while no thread is inside an entry, and the recording itself
// count as outside. So does everything that is not an entry of the table, storing keys and values for example.
#pragma once

#include <functional>

#include "kernels/kernels.h"

namespace draftproof {

class KernelTimer {
 public:
  explicit KernelTimer(const Kernels& table) : original_(table), table_(table) {}
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

  /// The table that the watched work must use.
  const Kernels& table() const noexcept { return table_; }

  struct Seen {
    double seconds;
    double outside;       // seconds, no thread was inside an entry
    double weight_bytes;  // of all matrices, each time they were multiplied with: of experts those that rows chose
  };
  /// Runs work() and returns what it did. Only one call at a time in a process.
  Seen watch(const std::function<void()>& work);

 private:
  const Kernels& original_;
  Kernels table_;
};

}  // namespace draftproof
