// SPDX-License-Identifier: MIT
// The vector table for AVX-512 F, BW, VL, DQ and VNNI, compiled for these instruction sets. Only the getter has
// external linkage.
#include "kernels/tables.h"

#ifdef __AVX512VNNI__

#include "kernels/lanes_avx512.h"
#include "kernels/vector.inc"

namespace draftproof {
namespace {
constexpr Kernels table = vector_kernels("avx512vnni", cpu_has_avx512_vnni);
}  // namespace
const Kernels* avx512_vnni_kernels() noexcept { return &table; }
}  // namespace draftproof

#else

namespace draftproof {
const Kernels* avx512_vnni_kernels() noexcept { return nullptr; }
}  // namespace draftproof

#endif
