// SPDX-License-Identifier: MIT
#pragma once

#include "kernels/kernels.h"
#include "kernels/threads.h"

namespace draftproof {

/// Sets the number of threads for the length of a scope.
class Threads {
 public:
  explicit Threads(int count) : before_(threads()) { set_threads(count); }
  ~Threads() { set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace draftproof
