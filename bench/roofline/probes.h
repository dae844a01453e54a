// SPDX-License-Identifier: MIT
// Loops that do nothing but load, or multiply floats, bf16 or bytes, one table per instruction set: what they reach is
// the most that any kernel can. Declarations only, for the instruction-set files.
#pragma once

#include <cstddef>

namespace draftproof {

struct Probes {
  const char* name;
  bool (*supported)() noexcept;
  /// Loads bytes [from, from + bytes) once, in four streams; bytes is a multiple of 4096. The value is of no use.
  int (*read)(const char* from, std::size_t bytes) noexcept;
  /// `loops` times some multiplications in independent chains, floats by fma, bf16 and bytes by dot products or tiles;
  /// gives how many. Without an instruction for them, bf16 are multiplied as floats.
  double (*multiply_floats)(int loops) noexcept;
  double (*multiply_bf16)(int loops) noexcept;
  double (*multiply_bytes)(int loops) noexcept;
};

const Probes* portable_probes() noexcept;
/// nullptr where the file was compiled for an architecture that cannot have it.
const Probes* avx2_probes() noexcept;
const Probes* avx2_vnni_probes() noexcept;
const Probes* avx512_probes() noexcept;
const Probes* avx512_vnni_probes() noexcept;
const Probes* avx512_bf16_probes() noexcept;
const Probes* amx_probes() noexcept;

}  // namespace draftproof
