// SPDX-License-Identifier: MIT
// What a row adds to the states of Mamba layers, for all tables alike: every element is computed by itself, each
// product and sum rounded, so all instruction sets that these functions are compiled for give the same bits.
#pragma once

#include <cstddef>

namespace draftproof {

/// One head of Mamba-2: state [states][dims] = old * decay + key values^T, which may be `old` itself. With sums [dims],
/// not nullptr, these are set to the sums over states, ascending from +0, of query * state.
void fold_head(std::ptrdiff_t states, std::ptrdiff_t dims, float decay, const float* keys, const float* values,
               const float* queries, const float* old, float* state, float* sums) noexcept;

/// One state of many channels of Mamba-1: state [count] = old * decays + key * values, which may be `old` itself. With
/// sums [count], not nullptr, query * state is added to these.
void fold_channels(std::ptrdiff_t count, const float* decays, float key, const float* values, float query,
                   const float* old, float* state, float* sums) noexcept;

}  // namespace draftproof
