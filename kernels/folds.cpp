// SPDX-License-Identifier: MIT
#include "kernels/folds.h"

#include <algorithm>

#include "kernels/widths.h"

// `state` and `old` are the same memory or apart, so no element waits for another.
#ifdef __clang__
#define DRAFTPROOF_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define DRAFTPROOF_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace draftproof {
namespace {

DRAFTPROOF_FOR_EACH_WIDTH
void add_head(std::ptrdiff_t states, std::ptrdiff_t dims, float decay, const float* keys,
              const float* __restrict values, const float* queries, const float* old, float* state,
              float* __restrict sums) {
  for (std::ptrdiff_t n = 0; n < states; ++n, old += dims, state += dims) {
    const float key = keys[n];
    if (sums == nullptr) {
      DRAFTPROOF_INDEPENDENT
      for (std::ptrdiff_t p = 0; p < dims; ++p) state[p] = old[p] * decay + key * values[p];
      continue;
    }
    const float query = queries[n];
    DRAFTPROOF_INDEPENDENT
    for (std::ptrdiff_t p = 0; p < dims; ++p) {
      const float updated = old[p] * decay + key * values[p];
      state[p] = updated;
      sums[p] += query * updated;
    }
  }
}

DRAFTPROOF_FOR_EACH_WIDTH
void add_channels(std::ptrdiff_t count, const float* __restrict decays, float key, const float* __restrict values,
                  float query, const float* old, float* state, float* __restrict sums) {
  if (sums == nullptr) {
    DRAFTPROOF_INDEPENDENT
    for (std::ptrdiff_t c = 0; c < count; ++c) state[c] = old[c] * decays[c] + key * values[c];
    return;
  }
  DRAFTPROOF_INDEPENDENT
  for (std::ptrdiff_t c = 0; c < count; ++c) {
    const float updated = old[c] * decays[c] + key * values[c];
    state[c] = updated;
    sums[c] += query * updated;
  }
}

}  // namespace

void fold_head(std::ptrdiff_t states, std::ptrdiff_t dims, float decay, const float* keys, const float* values,
               const float* queries, const float* old, float* state, float* sums) noexcept {
  if (sums != nullptr) std::fill_n(sums, dims, 0.0F);
  add_head(states, dims, decay, keys, values, queries, old, state, sums);
}

void fold_channels(std::ptrdiff_t count, const float* decays, float key, const float* values, float query,
                   const float* old, float* state, float* sums) noexcept {
  add_channels(count, decays, key, values, query, old, state, sums);
}

}  // namespace draftproof
