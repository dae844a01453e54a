// SPDX-License-Identifier: MIT
// Kimi Delta Attention (Kimi Linear), row by row: a gated delta net (gated_delta_net.h) in which each key dimension
// decays on its own.
//
// With the normalized input n of a row:
//   u = W_qkv n, f = W_fb (W_fa n), z = W_gb (W_ga n), b = W_b n
//   q, k, v of the convolution of u, and beta of b, as in gated_delta_net.h
//   decay = -exp(A_log) * softplus(f + dt_bias), for each key dimension of each head; exp(A_log) of the head
//   o = the gated delta rule with channel_decays (kernels.h)
//   y = W_out (rms_norm(o) / (1 + exp(-z))), the norm over each head
// Decay and beta are computed in double (math64.h) and rounded once.
#pragma once

#include <string>
#include <vector>

#include "ref/models/gated_delta_net.h"
#include "ref/models/transformer.h"

namespace draftproof {

struct KimiDeltaWeights {
  PackedMatrix in;                 // [channels + 2 * key_dim + heads][hidden]: qkv, f and z in narrow form, b
  PackedMatrix forget;             // [key_floats][key_dim]
  PackedMatrix gate;               // [value_floats][key_dim]
  PackedMatrix out;                // [hidden][value_floats]
  std::vector<float> convolution;  // [conv_width][channels]
  std::vector<double> rates;       // [heads], exp(A_log)
  std::vector<float> dt_bias;      // [key_floats]
  std::vector<float> norm;         // [value_dim]
};

/// `prefix` is everything before "q_proj.weight". A GGUF has -exp(A_log) in place of A_log.
KimiDeltaWeights load_kimi_delta(const WeightLoader& from, int hidden, const RecurrentShape& shape,
                                 const std::string& prefix);

/// Memory kept from call to call.
struct KimiDeltaScratch {
  std::vector<RecurrentCache*> caches;
  std::vector<float> projected, decays, gates, q, attended;

  static std::size_t bytes_per_row(const RecurrentShape& shape) noexcept;
};

/// projected [rows][hidden] = layer `i`, of normed
void kimi_delta_attention(const TransformerPass& pass, int i, const KimiDeltaWeights& weights,
                          KimiDeltaScratch& scratch);

}  // namespace draftproof
