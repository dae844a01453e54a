// SPDX-License-Identifier: MIT
// A Mamba-1 layer, row by row, with the norms that Jamba has in it.
//
// With the normalized input n of a row:
//   u, z = W_in n
//   s = sum over j < width, sequential, of taps[j] * (u of the row width - 1 - j before), plus the bias
//   x = SiLU(s)
//   t, B, C = W_x x, each normalized by a norm of its own
//   step = softplus(W_t t + bias), for each channel
//   S = S * exp(-exp(A_log) * step) + B (step * x), for each channel; o = C . S, sequential; o = o + D * x
//   y = W_out (SiLU(z) * o)
// Each product and sum is rounded. Steps and exp(A_log) are computed in double (math64.h) and rounded once; the
// exponential of a decay is the kernels'.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/operations.h"
#include "ref/caches/selective_scan_cache.h"
#include "ref/models/transformer.h"

namespace draftproof {

struct SelectiveScanWeights {
  PackedMatrix in;                 // [2 * channels][hidden]: u, z
  PackedMatrix selection;          // [step_rank + 2 * state_size][channels]: t, B, C
  PackedMatrix steps;              // [channels][step_rank]
  PackedMatrix out;                // [hidden][channels]
  std::vector<float> convolution;  // [conv_width][channels], the last tap for the row itself
  std::vector<float> conv_bias;    // [channels]
  std::vector<float> step_bias;    // [channels]
  std::vector<float> rates;        // [state_size][channels], exp(A_log)
  std::vector<float> skip;         // [channels], D
  std::vector<float> step_norm;    // [step_rank]
  std::vector<float> key_norm;     // [state_size], of B
  std::vector<float> query_norm;   // [state_size], of C
};

/// `prefix` is everything before "in_proj.weight", such as "model.layers.3.mamba.".
SelectiveScanWeights load_selective_scan(const WeightLoader& from, int hidden, const SelectiveScanShape& shape,
                                         const std::string& prefix);

/// Memory kept from call to call.
struct SelectiveScanScratch {
  std::vector<SelectiveScanCache*> caches;        // of each segment, in the layer that is computed
  std::vector<SelectiveScanCache::Rows> pending;  // of each range of a turn
  std::vector<float> projected, convolved, selected, steps, scanned, gated, mixed;
  PackedActivations activations;

  /// Bytes of one row, those packed for weights left out.
  static std::size_t bytes_per_row(const SelectiveScanShape& shape) noexcept;
};

/// Returns a cache of such a layer, which replays rows with these kernels.
std::unique_ptr<SelectiveScanCache> new_selective_scan_cache(const Kernels& kernels, const SelectiveScanShape& shape,
                                                             int max_pending_rows);

/// projected [rows][hidden] = layer `layer` of normed, whose rows are written to the caches of their segments. Each
/// range of a tree begins a branch at its position.
void selective_scan(const TransformerPass& pass, int layer, const SelectiveScanWeights& weights,
                    SelectiveScanScratch& scratch);

}  // namespace draftproof
