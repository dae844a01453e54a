// SPDX-License-Identifier: MIT
// What this machine can do at most with all threads of the run: bytes read from memory per second, and multiplications
// of floats, of bf16 and of bytes per second. Measured beside the work it is compared with, turn by turn.
#pragma once

#include <cstddef>

#include "bench/roofline/probes.h"
#include "kernels/aligned.h"
#include "kernels/kernels.h"

namespace draftproof {

class Roofline {
 public:
  /// Takes `bytes` of memory, more than any cache holds, and touches all of it.
  explicit Roofline(std::size_t bytes);

  const char* name() const noexcept { return probes_.name; }

  // Each works for some tens of milliseconds and gives what it did: bytes, or multiplications.
  double read() const;
  double multiply_floats() const;
  double multiply_bf16() const;
  double multiply_bytes() const;

 private:
  const Probes& probes_;
  std::size_t bytes_;
  Aligned<char> memory_;
};

/// At least 1 GiB: no cache flatters it.
inline constexpr std::size_t roofline_bytes = std::size_t{1} << 30;

}  // namespace draftproof
