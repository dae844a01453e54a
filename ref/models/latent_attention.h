// SPDX-License-Identifier: MIT
// Multi-head latent attention (DeepSeek V2): per position the cache holds one vector for all heads, the part of the key
// that RoPE turns and behind it the latent vector, which is also the value. In Kimi Linear RoPE turns nothing.
//
// A head's query has a part that RoPE turns and one that it does not. The latter is multiplied with the head's matrix
// of keys, which takes it to the latent space; so scores are products with what the cache holds. What a head gathers is
// multiplied with its matrix of values. Keys and values of the heads are never computed. Every row is read so, of a
// prompt as of a verification, and that keeps row law and causal law.
//
// The order of rounding: queries and the latent vector are projected and normalized; the query of each head is
// multiplied with its keys' matrix; attention as kernels.h defines it, with one KV head; what it gives each head is
// multiplied with its values' matrix.
#pragma once

#include <string>
#include <vector>

#include "ref/models/transformer.h"

namespace draftproof {

struct LatentWeights {
  PackedMatrix in;                   // [q_rank, or the heads' queries; latent; turned part of the key][hidden]
  std::vector<float> in_bias;        // of each output but queries of one matrix, which have none
  std::vector<float> q_norm;         // [q_rank]
  std::vector<float> latent_norm;    // [latent]
  PackedMatrix queries;              // [heads * (unturned + turned)][q_rank]
  std::vector<PackedMatrix> keys;    // of each head [latent][unturned]
  std::vector<PackedMatrix> values;  // of each head [value][latent]
  AttentionWeights attention;        // its output
};

/// Reads its sizes and the epsilon of the norms inside, which is 1e-6, whatever rms_norm_eps says, but in a GGUF. The
/// scale of scores, RoPE and biases are left to the architecture.
AttentionLayer read_latent_attention(const Json& config);
/// Returns the width of a head's query before it is taken to the latent space.
int query_width(const AttentionLayer& layer) noexcept;

/// `prefix` is everything before "kv_a_proj_with_mqa.weight". The keys' and values' matrices are in one tensor with
/// those of a head behind each other, or in tensors of their own (GGUF), the keys' with latent rows.
LatentWeights load_latent_attention(const WeightLoader& from, const TransformerConfig& config,
                                    const AttentionLayer& layer, const std::string& prefix);

/// Memory kept from call to call.
struct LatentScratch {
  std::vector<float> in, queries, values;
  std::vector<PackedActivations> of_heads;  // of each thread

  static std::size_t bytes_per_row(const AttentionLayer& layer) noexcept;
};

/// projected [rows][hidden] = the attention of layer `i`, of normed. kv and visible are set.
void latent_attention(const TransformerPass& pass, int i, const LatentWeights& weights, LatentScratch& scratch);

}  // namespace draftproof
