// SPDX-License-Identifier: MIT
#include "kernels/folds.h"

#include <algorithm>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)  // which runs no code before it has set itself up
#define DRAFTPROOF_FOR_WIDER_VECTORS __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define DRAFTPROOF_FOR_WIDER_VECTORS
#endif

namespace draftproof {

DRAFTPROOF_FOR_WIDER_VECTORS
void fold_head(std::ptrdiff_t states, std::ptrdiff_t dims, float decay, const float* keys,
               const float* __restrict values, const float* queries, const float* old, float* state,
               float* __restrict sums) noexcept {
  if (sums != nullptr) std::fill_n(sums, dims, 0.0F);
  for (std::ptrdiff_t n = 0; n < states; ++n, old += dims, state += dims) {
    const float key = keys[n];
    if (sums == nullptr) {
#pragma GCC ivdep  // `state` and `old` are the same memory or apart
      for (std::ptrdiff_t p = 0; p < dims; ++p) state[p] = old[p] * decay + key * values[p];
      continue;
    }
    const float query = queries[n];
#pragma GCC ivdep
    for (std::ptrdiff_t p = 0; p < dims; ++p) {
      const float updated = old[p] * decay + key * values[p];
      state[p] = updated;
      sums[p] += query * updated;
    }
  }
}

DRAFTPROOF_FOR_WIDER_VECTORS
void fold_channels(std::ptrdiff_t count, const float* __restrict decays, float key, const float* __restrict values,
                   float query, const float* old, float* state, float* __restrict sums) noexcept {
  if (sums == nullptr) {
#pragma GCC ivdep
    for (std::ptrdiff_t c = 0; c < count; ++c) state[c] = old[c] * decays[c] + key * values[c];
    return;
  }
#pragma GCC ivdep
  for (std::ptrdiff_t c = 0; c < count; ++c) {
    const float updated = old[c] * decays[c] + key * values[c];
    state[c] = updated;
    sums[c] += query * updated;
  }
}

}  // namespace draftproof
