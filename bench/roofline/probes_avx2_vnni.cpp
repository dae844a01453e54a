// SPDX-License-Identifier: MIT
// The probes for AVX2 with AVX-VNNI. Compiled for it: nothing here but the getter has linkage.
#include "bench/roofline/probes.h"
#include "kernels/tables.h"

#ifdef __AVXVNNI__

#include "kernels/lanes_avx2.h"
#include "bench/roofline/probes.inc"

namespace draftproof {
namespace {
constexpr Probes table = probes_of("avx2vnni", cpu_has_avx2_vnni);
}  // namespace
const Probes* avx2_vnni_probes() noexcept { return &table; }
}  // namespace draftproof

#else

namespace draftproof {
const Probes* avx2_vnni_probes() noexcept { return nullptr; }
}  // namespace draftproof

#endif
