// SPDX-License-Identifier: MIT
// Declarations that the files of this folder share; no other file includes it. Only declarations, because the
// instruction-set files include it.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace draftproof {

/// Return one table each; nullptr when the build is for an architecture without its instruction set.
const Kernels* scalar_kernels() noexcept;
const Kernels* openblas_kernels() noexcept;
const Kernels* avx2_kernels() noexcept;
const Kernels* avx2_vnni_kernels() noexcept;
const Kernels* avx512_kernels() noexcept;
const Kernels* avx512_vnni_kernels() noexcept;
const Kernels* avx512_bf16_kernels() noexcept;
const Kernels* amx_kernels() noexcept;
const Kernels* neon_kernels() noexcept;

/// What an instruction set changes in the table of the one that it extends. Only data: a table is copied and changed by
/// code that every CPU can run.
struct Extension {
  const char* name;
  bool (*supported)() noexcept;
  decltype(Kernels::pack_activations) pack_activations;  // nullptr: unchanged
  decltype(Kernels::matmul) matmul;
  decltype(Kernels::attention) attention;  // nullptr: unchanged
};

/// Return nullptr when the build is for an architecture without the instruction set.
const Extension* avx2_vnni_extension() noexcept;    // of avx2
const Extension* avx512_vnni_extension() noexcept;  // of avx512
const Extension* avx512_bf16_extension() noexcept;  // of avx512vnni
const Extension* amx_extension() noexcept;          // of avx512vnni

/// Return whether the CPU and the operating system support the instruction set of the table.
bool cpu_has_avx2() noexcept;
bool cpu_has_avx2_vnni() noexcept;
bool cpu_has_avx512() noexcept;
bool cpu_has_avx512_vnni() noexcept;
bool cpu_has_avx512_bf16() noexcept;
bool cpu_has_amx() noexcept;
bool cpu_has_neon() noexcept;

/// Whether vdpbf16ps multiplies faster than fma: twice as fast on AMD, half as fast on Intel (measured).
bool cpu_is_fast_at_avx512_bf16() noexcept;

}  // namespace draftproof
