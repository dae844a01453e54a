// SPDX-License-Identifier: MIT
// The probes for AVX2. Compiled for it: nothing here but the getter has linkage.
#include "bench/roofline/probes.h"
#include "kernels/tables.h"

#ifdef __AVX2__

#include "kernels/lanes_avx2.h"
#include "bench/roofline/probes.inc"

namespace draftproof {
namespace {
constexpr Probes table = probes_of("avx2", cpu_has_avx2);
}  // namespace
const Probes* avx2_probes() noexcept { return &table; }
}  // namespace draftproof

#else

namespace draftproof {
const Probes* avx2_probes() noexcept { return nullptr; }
}  // namespace draftproof

#endif
