// SPDX-License-Identifier: MIT
// What Qwen3-style pages share: the config fields, the weights as kernels want them, RoPE angles.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/operations.h"
#include "kernels/parallel.h"
#include "ref/caches/attention.h"
#include "ref/formats/json.h"
#include "ref/formats/checkpoint.h"

namespace draftproof {

struct TransformerConfig {
  int vocabulary = 0;
  int hidden = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int intermediate = 0;
  int context = 0;  // max_position_embeddings
  float epsilon = 0;
  double rope_theta = 0;
  std::vector<int> windows;  // per layer; AttentionCache::everything for full attention

  AttentionShape attention_shape() const;
};

/// Reads the fields a Qwen3-style config.json has. Absent, negative, contradictory or unknown-activation fields, and
/// every switch that would change the computation and is not implemented, are Errors naming file and field.
TransformerConfig read_transformer_config(const Json& config);

/// cos and sin of position * theta^(-2j / head_dim), rounded as the reference implementations round: the frequency to
/// float, the product in float. `cosine`, `sine`: [positions][head_dim / 2].
class Rope {
 public:
  Rope() = default;
  Rope(double theta, int head_dim);
  void angles(int first_position, int positions, std::vector<float>& cosine, std::vector<float>& sine) const;

 private:
  std::vector<float> frequencies_;
};

/// One attention + SwiGLU block's weights.
struct TransformerLayer {
  PackedMatrix qkv;      // [heads * d + 2 * kv_heads * d][hidden]: q, k, v
  PackedMatrix output;   // [hidden][heads * d]
  PackedMatrix gate_up;  // [2 * intermediate][hidden]: gate, up
  PackedMatrix down;     // [hidden][intermediate]
  std::vector<float> input_norm;      // [hidden]
  std::vector<float> attention_norm;  // [hidden], before the MLP ("post_attention_layernorm")
  std::vector<float> q_norm;          // [d]
  std::vector<float> k_norm;          // [d]
};

/// `prefix` is everything before "self_attn.q_proj.weight", for example "model.layers.3.".
TransformerLayer load_transformer_layer(const Checkpoint& weights, const TransformerConfig& config,
                                        const std::string& prefix, const Kernels& kernels);

/// Error when the checkpoint holds a tensor that is neither `known` nor a weight of a layer under `layers_prefix`
/// ("model.layers."): a bias, a scale or a second head that we would ignore.
void refuse_other_tensors(const Checkpoint& weights, const TransformerConfig& config, const std::string& layers_prefix,
                          std::set<std::string> known);

/// One matrix of a checkpoint, or several of equal width one below the other.
struct NamedMatrix {
  std::string name;
  int outputs;
};
PackedMatrix load_matrix(const Checkpoint& weights, std::span<const NamedMatrix> parts, int inputs,
                         const Kernels& kernels);

/// The activations of up to some rows, allocated once.
struct TransformerScratch {
  std::vector<float> stream, normed, qkv, attended, projected, gate_up, gated, scores, cosine, sine;
  std::vector<Visible> visible;
  Operands operands;
  void reserve(const TransformerConfig& config, int rows, int positions);
};

/// What the layers of a page have in common, in the order it happens; between `project` and `attend_and_feed` a page
/// does to q and k what its architecture asks for, ending with `turn`, over for_rows.
struct TransformerPass {
  const Kernels& kernels;
  const TransformerConfig& config;
  TransformerScratch& scratch;  // `stream` [rows][hidden] is read and replaced; cosine, sine, visible: the caller's
  int position;                 // of row 0
  int rows;

  int q_width() const { return config.heads * config.head_dim; }
  int kv_width() const { return config.kv_heads * config.head_dim; }
  int qkv_width() const { return q_width() + 2 * kv_width(); }
  float* q(int row) const { return scratch.qkv.data() + static_cast<std::ptrdiff_t>(row) * qkv_width(); }
  float* k(int row) const { return q(row) + q_width(); }
  double qk_work() const { return 4.0 * rows * (q_width() + kv_width()); }  // of norms and RoPE, for for_rows

  /// scratch.qkv [rows][q, k, v] = norm(stream) . qkv^T
  void project(const TransformerLayer& layer) const;

  /// RoPE on q and k of rows [begin, end).
  void turn(int begin, int end) const;

  /// Stores k and v at [position, position + rows), attends to each row's `visible` range, adds to the stream; then the
  /// MLP, likewise.
  void attend_and_feed(const TransformerLayer& layer, AttentionCache& memory) const;
};

/// Norms each head of q and of k, then RoPE: what Qwen3 does between `project` and `attend_and_feed`.
void norm_and_turn(const TransformerPass& pass, const TransformerLayer& layer);

}  // namespace draftproof
