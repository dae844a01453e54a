// SPDX-License-Identifier: MIT
// The vector table for AVX-512 F, BW, VL and DQ, compiled for these instruction sets. Only the getter has external
// linkage.
#include "kernels/tables.h"

#ifdef __AVX512F__

#include "kernels/lanes_avx512.h"
#include "kernels/vector.inc"

namespace draftproof {
namespace {
constexpr Kernels table = vector_kernels("avx512", cpu_has_avx512);
}  // namespace
const Kernels* avx512_kernels() noexcept { return &table; }
}  // namespace draftproof

#else

namespace draftproof {
const Kernels* avx512_kernels() noexcept { return nullptr; }
}  // namespace draftproof

#endif
