// SPDX-License-Identifier: MIT
// A Mamba-2 layer, row by row: no chunked form, whose bits would depend on how rows are divided among calls.
//
// With the normalized input n of a row:
//   z, u, d = W_in n, in some architectures each part times a factor
//   s = sum over j < width, sequential, of taps[j] * (u of the row width - 1 - j before), plus the bias
//   x, B, C = SiLU(s)
//   step = softplus(d + dt_bias), decay = exp(-exp(A_log) * step), for each head
//   S = S * decay + B (step * x), for each head, B of its group; o = C . S, sequential; o = o + D * x
//   y = W_out rms_norm(SiLU(z) * o), the norm over each group's part of the heads; in some architectures it is
//   SiLU(z) * rms_norm(o), in others there is no norm
// Each product and sum is rounded. Step and decay are computed in double (math64.h) and rounded once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/operations.h"
#include "ref/caches/state_space_cache.h"
#include "ref/models/transformer.h"

namespace draftproof {

struct StateSpaceWeights {
  PackedMatrix in;                                 // [inner + channels + heads][hidden]: z, u, d
  PackedMatrix out;                                // [hidden][inner]
  std::vector<float> convolution;                  // [conv_width][channels], the last tap for the row itself
  std::vector<float> conv_bias;                    // [channels]
  std::vector<double> rates;                       // [heads], exp(A_log)
  std::vector<float> dt_bias;                      // [heads]
  std::vector<float> skip;                         // [heads], D
  std::vector<float> norm;                         // [inner]; empty: there is none
  bool norm_first = false;                         // before the gate
  std::array<float, 5> factors = {1, 1, 1, 1, 1};  // of z; of x, B and C, which are u; of d
};

/// The names that the config of an architecture has for the sizes of the layer.
struct StateSpaceFields {
  const char* heads;
  const char* head_dim;
  const char* groups;
  const char* state_size;
  const char* conv_width;
  const char* expand;  // the width of all heads, divided by that of the model; nullptr: the heads say it alone
  const char* conv_bias;
  const char* proj_bias;
  const char* inner = nullptr;  // the width of all heads; where a config has it, `expand` means nothing
};
/// Reads the sizes of a model of this width. Throws Error, naming the field, for what is missing, contradictory or not
/// implemented: biases of the projections, a convolution without one, limited steps.
StateSpaceShape read_state_space(const Json& config, int hidden, const StateSpaceFields& fields);

/// `prefix` is everything before "in_proj.weight", such as "model.layers.3.mamba."; `normed`: there is a norm.
StateSpaceWeights load_state_space(const WeightLoader& from, int hidden, const StateSpaceShape& shape,
                                   const std::string& prefix, bool normed = true);

/// Memory kept from call to call.
struct StateSpaceScratch {
  std::vector<StateSpaceCache*> caches;  // of each segment, in the layer that is computed
  std::vector<float> projected, convolved, exponentials, scanned, gated, mixed;
  PackedActivations activations;

  /// Bytes of one row, those packed for weights left out.
  static std::size_t bytes_per_row(const StateSpaceShape& shape) noexcept;
};

std::unique_ptr<StateSpaceCache> new_state_space_cache(const StateSpaceShape& shape, int max_pending_rows);

/// projected [rows][hidden] = layer `layer` of normed, whose rows are written to the caches of their segments. Each
/// range of a tree begins a branch at its position.
void state_space(const TransformerPass& pass, int layer, const StateSpaceWeights& weights, StateSpaceScratch& scratch);

}  // namespace draftproof
