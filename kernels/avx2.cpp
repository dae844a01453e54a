// SPDX-License-Identifier: MIT
// The vector table for AVX2 and FMA, compiled for these instruction sets. Only the getter has external linkage.
#include "kernels/tables.h"

#ifdef __AVX2__

#include "kernels/lanes_avx2.h"
#include "kernels/vector.inc"

namespace draftproof {
namespace {
constexpr Kernels table = vector_kernels("avx2", cpu_has_avx2);
}  // namespace
const Kernels* avx2_kernels() noexcept { return &table; }
}  // namespace draftproof

#else

namespace draftproof {
const Kernels* avx2_kernels() noexcept { return nullptr; }
}  // namespace draftproof

#endif
