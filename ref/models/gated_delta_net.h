// SPDX-License-Identifier: MIT
// A gated delta net layer, the linear attention of Qwen3.5, row by row: no chunked form, whose bits would depend on how
// rows are divided among calls.
//
// With the normalized input n of a row:
//   u = W_qkv n, z = W_z n, b = W_b n, a = W_a n
//   c = SiLU(causal depthwise convolution of u), cut into q, k, v
//   q = q / sqrt(sum of q*q + 1e-6) / sqrt(key_dim) and k = k / sqrt(sum of k*k + 1e-6), head by head
//   beta = sigmoid(b), decay = -exp(A_log) * softplus(a + dt_bias), for each value head
//   o = the gated delta rule (kernels.h)
//   y = W_out (rms_norm(o) * SiLU(z)), the norm over each value head
// The norms of q and k are rms_norm with epsilon 1e-6 / key_dim and constant weights. Decay and beta are computed in
// double (math64.h) and rounded once.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/operations.h"
#include "ref/caches/recurrent_cache.h"
#include "ref/models/transformer.h"

namespace draftproof {

struct GatedDeltaNetWeights {
  PackedMatrix in;                 // [channels + value_floats + 2 * value_heads][hidden]: qkv, z, b, a
  PackedMatrix out;                // [hidden][value_floats]
  std::vector<float> convolution;  // [conv_width][channels], the last tap for the row itself
  std::vector<double> rates;       // [value_heads], exp(A_log)
  std::vector<float> dt_bias;      // [value_heads]
  std::vector<float> norm;         // [value_dim]
};

/// Returns exp(A_log) of each head.
std::vector<double> rates_of(std::span<const float> a_log);

/// Memory kept from call to call.
struct GatedDeltaNetScratch {
  std::vector<float> projected, q, attended, gated, mixed;
  PackedActivations activations;

  /// Bytes of one row, those packed for weights left out.
  static std::size_t bytes_per_row(const RecurrentShape& shape) noexcept;
};

/// Returns a cache of such a layer, which replays rows with these kernels.
std::unique_ptr<RecurrentCache> new_gated_delta_net_cache(const Kernels& kernels, const RecurrentShape& shape,
                                                          int max_pending_rows);

/// The rows of a pass between the projections of such a layer.
struct ProjectedRows {
  const float* first;     // of each row, what the convolution reads: q, k, v
  std::ptrdiff_t stride;  // of rows
  std::function<void(int row, float* decays, float* betas)> store_gates;  // of a row, as DeltaRows has them
};

/// Convolves the rows, normalizes q and k, and folds keys and values into the states of the caches, to which it writes
/// the rows; attended [rows][value_floats] = what q reads there. `ranges` are as below, convolution
/// [conv_width][channels], q [rows][key_floats] is memory for it.
void fold_rows(const Kernels& kernels, const RecurrentShape& shape, const std::vector<float>& convolution,
               const ProjectedRows& rows, std::span<const RowRange> ranges, std::span<RecurrentCache* const> caches,
               float* q, float* attended);

/// Computes y [rows][hidden] from n [rows][hidden] and writes the rows to the caches of their segments. `ranges` are
/// all rows, those of a segment in order; each one of a tree begins a branch at its position. epsilon: of the norm of
/// o.
void gated_delta_net(const Kernels& kernels, const RecurrentShape& shape, const GatedDeltaNetWeights& weights,
                     float epsilon, const float* n, int rows, std::span<const RowRange> ranges,
                     GatedDeltaNetScratch& scratch, std::span<RecurrentCache* const> caches, float* y);

}  // namespace draftproof
