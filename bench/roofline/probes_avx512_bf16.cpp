// SPDX-License-Identifier: MIT
// The probes for AVX-512 with VNNI and BF16. Compiled for it: nothing here but the getter has linkage.
#include "bench/roofline/probes.h"
#include "kernels/tables.h"

#ifdef __AVX512BF16__

#include "kernels/lanes_avx512.h"
#include "bench/roofline/probes.inc"

namespace draftproof {
namespace {

double multiply_bf16(int loops) noexcept {
  __m512 sums[chains];
#pragma GCC unroll 32
  for (int c = 0; c < chains; ++c) sums[c] = _mm512_set1_ps(static_cast<float>(c));
  const __m512i pairs = _mm512_set1_epi32(0x3f003f00);  // 0.5, 0.5
  for (int i = 0; i < loops; ++i) {
#pragma GCC unroll 32
    for (int c = 0; c < chains; ++c) {
      sums[c] = _mm512_dpbf16_ps(sums[c], reinterpret_cast<__m512bh>(pairs), reinterpret_cast<__m512bh>(pairs));
    }
  }
  __m512 total = sums[0];
#pragma GCC unroll 32
  for (int c = 1; c < chains; ++c) total = _mm512_add_ps(total, sums[c]);
  sink = static_cast<int>(_mm512_reduce_add_ps(total));
  return 32.0 * chains * loops;
}

constexpr Probes with_bf16(Probes probes) {
  probes.multiply_bf16 = multiply_bf16;
  return probes;
}

constexpr Probes table = with_bf16(probes_of("avx512bf16", cpu_has_avx512_bf16));

}  // namespace
const Probes* avx512_bf16_probes() noexcept { return &table; }
}  // namespace draftproof

#else

namespace draftproof {
const Probes* avx512_bf16_probes() noexcept { return nullptr; }
}  // namespace draftproof

#endif
