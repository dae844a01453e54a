// SPDX-License-Identifier: MIT
// The probes for AVX-512 F, BW, VL and DQ. Compiled for it: nothing here but the getter has linkage.
#include "bench/roofline/probes.h"
#include "kernels/tables.h"

#ifdef __AVX512F__

#include "kernels/lanes_avx512.h"
#include "bench/roofline/probes.inc"

namespace draftproof {
namespace {
constexpr Probes table = probes_of("avx512", cpu_has_avx512);
}  // namespace
const Probes* avx512_probes() noexcept { return &table; }
}  // namespace draftproof

#else

namespace draftproof {
const Probes* avx512_probes() noexcept { return nullptr; }
}  // namespace draftproof

#endif
