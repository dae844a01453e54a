// SPDX-License-Identifier: MIT
// The building blocks of decoder-only transformers: packed weights, the activations of a pass, and the passes over
// rows. A model implementation puts its layers together from them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/operations.h"
#include "kernels/threads.h"
#include "ref/caches/attention_cache.h"
#include "ref/models/model.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// What an architecture does not have is empty.
struct AttentionWeights {
  PackedMatrix qkv;                // [projected][hidden]: q, k, v; less what the layer takes from elsewhere
  Ranks* ranks = nullptr;          // then qkv and its bias are only those of the heads that this rank has
  PackedMatrix output;             // [hidden][heads * d]
  std::vector<float> qkv_bias;     // [heads * d + 2 * kv_heads * d]
  std::vector<float> output_bias;  // [hidden]
  std::vector<float> q_norm;       // [d], of each head before RoPE, or [heads * d]
  std::vector<float> k_norm;       // [d] or [kv_heads * d]
  std::vector<float> v_norm;       // [d]
  std::vector<float> sinks;        // [heads]
  std::vector<float> sub_norm;     // [heads * d], of attended rows
};

/// Loads the matrices and, as the layer says, the biases and sinks. `prefix` is everything before "q_proj.weight", such
/// as "model.layers.3.self_attn."; `inputs` is the width of what q, k and v are projected from, `output` the name of
/// the projection behind attention.
AttentionWeights load_attention(const WeightLoader& from, const TransformerConfig& config, const AttentionLayer& layer,
                                const std::string& prefix, int inputs, const std::string& output = "o_proj");
/// What a rank has of the heads that qkv projects, and their places in a row of it.
struct ProjectedHeads {
  HeldHeads held;
  int q_width;
  int kv_width;
  int stride;  // of rows

  ProjectedHeads(const AttentionLayer& layer, const AttentionWeights& weights) noexcept;
};

void load_head_norms(const WeightLoader& from, const TransformerConfig& config, const AttentionLayer& layer,
                     const std::string& prefix, AttentionWeights& to);

/// xIELU (Huang 2024): positive x^2 + beta x above 0, else negative (exp(min(x, epsilon)) - 1 - x) + beta x.
struct Xielu {
  double positive = 0;
  double negative = 0;
  double beta = 0;
  double epsilon = 0;
};

struct MlpWeights {
  PackedMatrix gate_up;             // [2 * intermediate][hidden]: gate, up; [intermediate][hidden]: up, without a gate
  Ranks* ranks = nullptr;           // then gate_up and its bias are those of some inputs of `down` (HeldRange)
  PackedMatrix down;                // [hidden][intermediate]
  std::vector<float> gate_up_bias;  // of each output
  std::vector<float> down_bias;     // [hidden]
  std::vector<float> sub_norm;      // [intermediate], of what `down` multiplies
  Xielu xielu;                      // where it is the activation
  float gate_scale = 1;             // of what the activation reads
  /// Gates of a row lose its mean and so many standard deviations, and what is then below 0 becomes 0.
  std::optional<double> gate_cutoff = {};

  int intermediate() const noexcept { return down.inputs(); }
};

/// `prefix` is everything before "gate_proj.weight", such as "model.layers.3.mlp.". `rows`: the gates of a row are
/// needed together.
MlpWeights load_mlp(const WeightLoader& from, int hidden, int intermediate, bool bias, const std::string& prefix,
                    bool rows = false);

/// Loads one without a gate.
MlpWeights load_plain_mlp(const WeightLoader& from, int hidden, int intermediate, bool bias, const std::string& up,
                          const std::string& down);

/// Loads the weights of a norm and adds config.norm_offset to each; behind them its bias, where it has one.
std::vector<float> load_norm(const WeightLoader& from, const TransformerConfig& config, const std::string& name,
                             int width);

/// to [count][hidden] = the norm of the config, of rows; they may be the same. `weight` is from load_norm.
void normalize_rows(const Kernels& kernels, const TransformerConfig& config, const std::vector<float>& weight,
                    const float* from, int count, float* to);

/// Returns the taps of a depthwise convolution as [width][channels] from [channels][width], as files have them.
std::vector<float> taps_by_row(const std::vector<float>& stored, int width);

/// Divides the frequencies by those that GGUF files, which have no word for it in their metadata, keep as a tensor, if
/// there is one.
void stretch_rope(const WeightLoader& from, Rope& rope);

/// A layer with a norm before its attention and one before its MLP, as Llama has it.
struct PreNormLayer {
  AttentionWeights attention;
  MlpWeights mlp;
  std::vector<float> attention_norm;  // [hidden], "input_layernorm"
  std::vector<float> mlp_norm;        // [hidden], "post_attention_layernorm"
};

/// Loads layer `i` of the config, without an MLP where it has experts. `prefix` is everything before "self_attn.", such
/// as "model.layers.3.".
PreNormLayer load_pre_norm_layer(const WeightLoader& from, const TransformerConfig& config, int i,
                                 const std::string& prefix);

/// Create the caches that the config's layers need, and the cache of all of them. `ranks`: keep some KV heads each.
std::vector<std::unique_ptr<LayerCache>> new_layer_caches(const TransformerConfig& config, const Kernels& kernels,
                                                          KvFormat kv, int capacity, int max_pending_rows,
                                                          Ranks* ranks = nullptr);
std::unique_ptr<Cache> new_transformer_cache(const TransformerConfig& config, const Kernels& kernels, KvFormat kv,
                                             int capacity, int max_pending_rows, Ranks* ranks = nullptr);

/// cap * tanh(logit / cap), computed in double and rounded once; -infinity, of a token that is never proposed, stays.
void soft_cap(std::span<float> logits, float cap);

/// Makes the logits of the tokens from `first` on, in rows of `vocabulary`, -infinity: they are never proposed.
void leave_out_tokens(int first, int vocabulary, std::span<float> logits);

/// attended [rows][heads * d] = the heads of all ranks, of which this one has `here` [rows][held heads * d]. `shape` is
/// that of all heads.
void exchange_heads(const AttentionShape& shape, Ranks& ranks, int rows, const float* here, float* attended);

/// Where the rows of one segment go.
struct Placement {
  Cache* cache;
  int rows;
  int position;                      // of the first row; of a tree: of its root
  std::span<const int> depths = {};  // of a tree; its rows are at position + depth
};
/// Returns the placement of a segment's rows behind those that its cache holds.
Placement placement_of(const Segment& segment);

/// Consecutive rows of one segment at consecutive positions. A chain is one range; a tree has one for each branch.
struct RowRange {
  int segment;
  int row;  // of the pass
  int rows;
  int position;  // of the first row
  int turn;      // the number of ranges of the segment before it, which must be complete before it begins
};

/// The angles of one RoPE.
struct Turns {
  std::vector<float> cosine, sine;  // [rows][half]
};

/// Makes `buffer` at least [rows][width]; it never shrinks.
void reserve_rows(std::vector<float>& buffer, int rows, int width);

/// The activations of a pass; memory is kept from pass to pass.
struct TransformerScratch {
  std::vector<float> hidden_states, normed, qkv, attended, projected, gate_up, gated;
  std::vector<float> attended_here;  // of the heads that this rank computes, where others compute the rest
  std::vector<Turns> turns;          // of each RoPE
  std::vector<Cache*> caches;        // of each segment
  std::vector<int> first_rows;       // of each segment, in the pass
  std::vector<int> positions;        // of each row
  std::vector<RowRange> ranges;      // all rows, by turn
  std::vector<bool> trees;           // of each segment
  std::vector<AttentionCache*> kv;   // of each segment, in the layer that is computed
  std::vector<Visible> visible;      // of each row, in the layer that is computed
  std::vector<StoreJob> to_store;
  std::vector<AttentionJob> to_attend;
  PackedActivations activations;
  AttentionScratch attention;
  int rows_max = 0;       // of a segment
  int positions_max = 0;  // of a text

  /// Makes room for the rows of these segments, one after the other, and computes their angles.
  void lay_out(const TransformerConfig& config, std::span<const Placement> segments);
  /// The same for rows at these positions that no cache will hold. Only what needs no segments can be done with them.
  void lay_out_unwritten(const TransformerConfig& config, std::span<const int> at);

  int rows() const noexcept { return static_cast<int>(positions.size()); }

  /// Makes `cache` hold what it held when it had stored the rows of this range of a tree, which all layers but its own
  /// need once it has stored all ranges. The ranges of a segment are recalled in order.
  void recall(const RowRange& range, AttentionCache& cache) const;

  /// Bytes of one row of activations, those packed for weights and those of attention left out.
  static std::size_t bytes_per_row(const TransformerConfig& config) noexcept;

 private:
  void forget_rows();
  void make_room(const TransformerConfig& config);
};

/// The steps that layers are made of.
struct TransformerPass {
  const Kernels& kernels;
  const TransformerConfig& config;
  TransformerScratch& scratch;  // hidden_states [rows][hidden] in and out
  int rows;                     // of all segments

  /// normed = norm(hidden_states)
  void normalize(const std::vector<float>& weight) const;
  /// to [rows][hidden] = norm(from); they may be the same.
  void normalize(const std::vector<float>& weight, const float* from, float* to) const;

  /// qkv [rows][stride of ProjectedHeads] = normed [rows][qkv.inputs()] . qkv^T; to q and k are then added the biases,
  /// their heads normalized, and turned; q grows; heads of v are normalized.
  void project(const AttentionLayer& layer, const AttentionWeights& weights) const;

  /// Sets kv and visible: every row sees what the cache of this layer, or of its donor, holds before it and itself, in
  /// a sliding window the last of these, in chunks those of its own.
  void see(int layer) const;

  /// Stores k and v at the positions of the rows; attended [rows][attended_width()] = attention over `visible`. The
  /// ranges of a segment are processed in order, so beyond the settled positions a row of a tree sees its ancestors,
  /// which were the last to be stored at their positions. A layer with a donor reads what that stored, of trees in the
  /// same order.
  void attend(const AttentionLayer& layer, const AttentionWeights& weights) const;

  /// projected [rows][hidden] = attended . output^T, plus the bias; attended is normalized first where there is a norm
  void project_attended(const AttentionWeights& weights) const;
  /// The same of other rows, [rows][output.inputs()].
  void project_attended(const AttentionWeights& weights, float* attended) const;

  /// projected [rows][hidden] = attention of normed: all of the above for one layer.
  void self_attention(int layer, const AttentionWeights& weights) const;

  /// projected [rows][hidden] = the MLP of normed
  void mlp(const MlpWeights& weights) const;

  /// y [count][hidden] = (activation(gate) * up) . down^T with gate, up = x . gate_up^T, and the biases; without a gate
  /// activation(up) . down^T. What down^T multiplies is normalized where there is a norm. count is at most `rows`.
  void mlp(const MlpWeights& weights, const float* x, int count, float* y) const;

  /// gated [count][those here] = activation(gate) * up of some inputs of `down`, as `weights` has them.
  void gate(const MlpWeights& weights, const float* x, int count) const;

  /// projected = norm(projected)
  void normalize_projected(const std::vector<float>& weight) const;

  /// hidden_states += scale * projected; by default that of the config
  void add_projected() const;
  void add_projected(float scale) const;

  /// hidden_states += attention(norm(hidden_states)). kv and visible are set.
  void pre_norm_attention(const AttentionLayer& layer, const PreNormLayer& weights) const;

  /// The same, then hidden_states += MLP(norm(hidden_states)).
  void pre_norm_layer(const AttentionLayer& layer, const PreNormLayer& weights) const;
};

}  // namespace draftproof
