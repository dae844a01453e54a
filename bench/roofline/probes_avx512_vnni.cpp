// SPDX-License-Identifier: MIT
// The probes for AVX-512 with VNNI. Compiled for it: nothing here but the getter has linkage.
#include "bench/roofline/probes.h"
#include "kernels/tables.h"

#ifdef __AVX512VNNI__

#include "kernels/lanes_avx512.h"
#include "bench/roofline/probes.inc"

namespace draftproof {
namespace {
constexpr Probes table = probes_of("avx512vnni", cpu_has_avx512_vnni);
}  // namespace
const Probes* avx512_vnni_probes() noexcept { return &table; }
}  // namespace draftproof

#else

namespace draftproof {
const Probes* avx512_vnni_probes() noexcept { return nullptr; }
}  // namespace draftproof

#endif
