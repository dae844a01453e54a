// SPDX-License-Identifier: MIT
// What the files of this folder share; nobody else includes it. Declarations only, for the instruction-set files.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace draftproof {

/// One table per file. nullptr where the file was compiled for an architecture that cannot have it.
const Kernels* scalar_kernels() noexcept;
const Kernels* openblas_kernels() noexcept;
const Kernels* avx2_kernels() noexcept;
const Kernels* avx2_vnni_kernels() noexcept;
const Kernels* avx512_kernels() noexcept;
const Kernels* avx512_vnni_kernels() noexcept;
const Kernels* amx_kernels() noexcept;
const Kernels* neon_kernels() noexcept;

/// The CPU, and the operating system, can run what the file is compiled to.
bool cpu_has_avx2() noexcept;
bool cpu_has_avx2_vnni() noexcept;
bool cpu_has_avx512() noexcept;
bool cpu_has_avx512_vnni() noexcept;
bool cpu_has_amx() noexcept;
bool cpu_has_neon() noexcept;

}  // namespace draftproof
