// SPDX-License-Identifier: MIT
// The parts that implementations of decoder-only transformers share: config fields, packed weights, RoPE angles, and
// the passes over rows.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/operations.h"
#include "kernels/threads.h"
#include "ref/caches/attention_cache.h"
#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// RoPE scaling of Llama 3.1 ("llama3"): wavelengths above original_context / low_factor become `factor` times as long,
/// those below original_context / high_factor stay, and those between are interpolated.
struct Llama3Rope {
  float factor = 0;
  float low_factor = 0;
  float high_factor = 0;
  float original_context = 0;
};

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
  std::optional<Llama3Rope> rope_scaling;
  std::vector<int> windows;  // per layer; AttentionCache::everything for full attention

  AttentionShape attention_shape() const;
};

/// Reads the config.json of a decoder-only transformer. Throws Error, naming file and field, when a field is missing,
/// negative or contradictory, when the activation is unknown, and for every switch that would change the computation
/// and is not implemented. `vocabulary`: the value of a missing vocab_size; without it the field is required.
TransformerConfig read_transformer_config(const Json& config, std::optional<int> vocabulary = {});

/// Computes cos and sin of position * frequency, rounded as the reference implementations do: the frequency
/// theta^(-2j / head_dim) to float, its scaling and the product in float. `cosine`, `sine`: [positions][head_dim / 2].
class Rope {
 public:
  Rope() = default;
  explicit Rope(const TransformerConfig& config);
  /// Divides the frequencies by `by`, which has one factor for each pair of dimensions of a head.
  void stretch(std::span<const float> by);
  void angles(std::span<const int> positions, std::vector<float>& cosine, std::vector<float>& sine) const;
  /// Returns what turns keys of these heads back. The result holds copies, so it may outlive the rest.
  AttentionCache::TurnBack turn_back(const Kernels& kernels, int head_dim) const;

 private:
  std::vector<float> frequencies_;
};

/// The weights of one attention + SwiGLU layer.
struct TransformerLayer {
  PackedMatrix qkv;      // [heads * d + 2 * kv_heads * d][hidden]: q, k, v
  PackedMatrix output;   // [hidden][heads * d]
  PackedMatrix gate_up;  // [2 * intermediate][hidden]: gate, up
  PackedMatrix down;     // [hidden][intermediate]
  std::vector<float> input_norm;      // [hidden]
  std::vector<float> attention_norm;  // [hidden], before the MLP ("post_attention_layernorm")
};
inline constexpr int layer_weights = 9;
inline constexpr const char* layer_weight_names[layer_weights] = {
    "self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
    "self_attn.o_proj.weight", "mlp.gate_proj.weight",    "mlp.up_proj.weight",
    "mlp.down_proj.weight",    "input_layernorm.weight",  "post_attention_layernorm.weight"};

/// `prefix` is everything before "self_attn.q_proj.weight", for example "model.layers.3.".
TransformerLayer load_transformer_layer(const WeightLoader& from, const TransformerConfig& config,
                                        const std::string& prefix);

/// The norms of each head of q and k before RoPE (Qwen3).
struct HeadNorms {
  std::vector<float> q;  // [d]
  std::vector<float> k;  // [d]
};
inline constexpr const char* head_norm_names[] = {"self_attn.q_norm.weight", "self_attn.k_norm.weight"};
HeadNorms load_head_norms(const Checkpoint& weights, const TransformerConfig& config, const std::string& prefix);

/// Throws Error when the checkpoint has a tensor that is neither `known` nor, under `layers_prefix` ("model.layers."),
/// one of layer_weight_names or `also_in_layers`: a bias, a scale or a second LM head that would be ignored.
void refuse_other_tensors(const Checkpoint& weights, const TransformerConfig& config, const std::string& layers_prefix,
                          std::span<const char* const> also_in_layers, std::set<std::string> known);

/// Where the rows of one segment go.
struct Placement {
  int rows;
  int position;  // of the first row; of a tree: of its root
  int capacity;  // most positions of the text
  std::span<const int> depths = {};  // of a tree; its rows are at position + depth
};
/// Returns the placement of a segment's rows behind those that its cache holds.
Placement placement_of(const Segment& segment);

/// Consecutive rows of one segment at consecutive positions. A chain is one range; a tree has one for each branch.
struct RowRange {
  int segment;
  int row;       // of the pass
  int rows;
  int position;  // of the first row
  int turn;      // the number of ranges of the segment before it, which must be complete before it begins
};

/// The activations of a pass; memory is kept from pass to pass.
struct TransformerScratch {
  std::vector<float> hidden_states, normed, qkv, attended, projected, gate_up, gated, cosine, sine;
  std::vector<int> first_rows;     // of each segment, in the pass
  std::vector<int> positions;      // of each row
  std::vector<RowRange> ranges;    // all rows, by turn
  std::vector<bool> trees;         // of each segment
  std::vector<AttentionCache*> kv;  // of each segment, in the layer that is computed
  std::vector<Visible> visible;
  std::vector<StoreJob> to_store;
  std::vector<AttentionJob> to_attend;
  PackedActivations activations;
  AttentionScratch attention;
  /// Makes room for the rows of these segments, one after the other.
  void lay_out(const TransformerConfig& config, std::span<const Placement> segments);

  int rows() const noexcept { return static_cast<int>(positions.size()); }

  /// Bytes of one row of activations, those packed for weights and those of attention left out.
  static std::size_t bytes_per_row(const TransformerConfig& config) noexcept;
};

/// The steps that all layers have in common, in order. Between `project` and `attention_and_mlp` an implementation
/// changes q and k as its architecture asks, ending with `apply_rope`, over for_rows.
struct TransformerPass {
  const Kernels& kernels;
  const TransformerConfig& config;
  TransformerScratch& scratch;  // hidden_states [rows][hidden] in and out; the caller sets cosine, sine, kv, visible
  int rows;                     // of all segments

  int q_width() const { return config.heads * config.head_dim; }
  int kv_width() const { return config.kv_heads * config.head_dim; }
  int qkv_width() const { return q_width() + 2 * kv_width(); }
  float* q(int row) const { return scratch.qkv.data() + static_cast<std::ptrdiff_t>(row) * qkv_width(); }
  float* k(int row) const { return q(row) + q_width(); }
  double qk_work() const { return 4.0 * rows * (q_width() + kv_width()); }  // of norms and RoPE, for for_rows

  /// scratch.qkv [rows][q, k, v] = norm(hidden_states) . qkv^T
  void project(const TransformerLayer& layer) const;

  /// Rotates q and k of rows [begin, end).
  void apply_rope(int begin, int end) const;

  /// Stores k and v at the positions of the rows, attends to the `visible` range of each row, and adds the result to
  /// the hidden states; then does the same with the MLP. The ranges of a segment are processed in order, so beyond the
  /// settled positions a row of a tree sees its ancestors, which were the last to be stored at their positions.
  void attention_and_mlp(const TransformerLayer& layer) const;

 private:
  void attend() const;
};

/// Normalizes each head of q and k, then applies RoPE: what Qwen3 does between `project` and `attention_and_mlp`.
void qk_norm_and_rope(const TransformerPass& pass, const HeadNorms& norms);

}  // namespace draftproof
