// SPDX-License-Identifier: MIT
// What a decoder-only transformer is, without its weights: sizes, RoPE, and what each layer is made of. Loading, the
// caches, the memory that is counted and `draftproof inspect` all follow this description.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/kernels.h"
#include "ref/caches/attention_cache.h"
#include "ref/caches/convolution_cache.h"
#include "ref/caches/recurrent_cache.h"
#include "ref/caches/selective_scan_cache.h"
#include "ref/caches/state_space_cache.h"
#include "ref/formats/json.h"
#include "ref/models/rope.h"

namespace draftproof {

/// Of the gate of an MLP, or of what has none. gelu: its tanh form. relu2: max(x, 0) squared. xielu: transformer.h.
/// clamped_swiglu: of gates and ups, see ClampedSwiglu.
enum class Activation : std::uint8_t { silu, gelu, relu2, xielu, clamped_swiglu };

/// g * sigmoid(alpha * g) * (u + 1) with g = min(gate, limit) and u = up between -limit and limit.
struct ClampedSwiglu {
  float alpha = 1.702F;
  float limit = 7;
};

/// Of q and k, behind their projection and bias. heads: each head is normalized. whole: all heads together.
/// plain_heads: each head, without weights.
enum class QkNorm : std::uint8_t { none, heads, whole, plain_heads };

/// layer: the mean is subtracted first, and a bias is added where the checkpoint has one. plain: rms without weights.
enum class Norm : std::uint8_t { rms, layer, plain };

/// Queries that grow with their position p, of models made for contexts longer than what they were trained on: behind
/// RoPE, q = q * (1 + beta * ln(1 + floor((p + ahead) / step))), the factor computed in double and rounded once.
struct QueryGrowth {
  double beta = 0;        // 0: they do not grow
  std::int64_t step = 1;  // positions
  int ahead = 0;

  float at(int position) const;
};

/// Multi-head latent attention (latent_attention.h): all heads have one key, of which RoPE turns the first part; the
/// rest is the latent vector, which is also the value.
struct LatentAttention {
  int q_rank = 0;     // of the projection of queries; 0: it is one matrix
  int unturned = 0;   // of a head's query, before it is taken to the latent space
  int value = 0;      // of a head's value, behind it
  float epsilon = 0;  // of the norms inside
};

/// The attention of one layer. A row of its projection holds q, k, v and, of some architectures, an output gate.
struct AttentionLayer {
  static constexpr int own = -1;
  static constexpr int no_rope = -1;

  AttentionShape shape = {};
  int window = AttentionCache::everything;  // positions that a row sees, its own included
  bool chunked = false;                     // of these the ones in its chunk, as long as the window
  int rope = 0;                             // of TransformerConfig::ropes; no_rope: heads are not turned
  bool interleaved = false;                 // the checkpoint has RoPE turn neighboring rows of q and k
  QkNorm qk_norm = QkNorm::none;
  QueryGrowth growth = {};
  int gate = 0;  // floats behind v
  bool qkv_bias = false;
  bool output_bias = false;
  bool sinks = false;                          // a score of each head's own
  bool values_from_keys = false;               // v is k before its norm and RoPE, of the same projection
  int donor = own;                             // the earlier layer whose keys and values it reads, projecting none; of
                                               // an assistant (gemma4_assistant.h) a layer of its target
  std::optional<LatentAttention> latent = {};  // then a row holds q and k as the cache has them

  int q_width() const noexcept { return shape.heads * shape.head_dim; }
  int kv_width() const noexcept { return shape.kv_heads * shape.head_dim; }
  int attended_width() const noexcept { return shape.heads * value_dim(shape); }
  int projected() const noexcept {
    return q_width() + (donor != own ? 0 : latent ? kv_width() : 2 * kv_width()) + gate;
  }
};

/// What a router makes of its logits: all together, or each alone.
enum class RouterScores : std::uint8_t { softmax, sigmoid };

/// What groups of experts are chosen by: the scores of their two best experts, or that of their best.
enum class GroupRank : std::uint8_t { two_best, best };

/// Experts instead of one MLP, see experts.h.
struct Experts {
  int count = 0;  // 0: the layer has none
  int chosen = 0;
  int intermediate = 0;
  int latent = 0;            // the width of the rows that experts read and give; 0: the model's
  int shared = 0;            // the intermediate size of an MLP that every row goes through as well; 0: there is none
  bool shared_gate = true;   // what that one adds is weighed by a gate
  bool router_bias = false;  // added to the logits
  bool bias = false;         // of the MLPs
  bool gated = true;         // as LayerConfig::gated
  RouterScores scores = RouterScores::softmax;
  bool choice_bias = false;  // added to the scores that experts are chosen by, not to their weights
  int groups = 1;            // of neighbors
  int groups_chosen = 1;     // that experts are chosen from
  GroupRank group_rank = GroupRank::two_best;
  bool normalized = false;       // the weights of the chosen add up to 1
  double sum_added = 0;          // to the sum that they are divided by
  double sum_min = 0;            // what that sum is at least
  float scale = 1;               // of the weights
  bool weighted_inputs = false;  // a weight multiplies what an expert reads, not what it gives
};

/// Of a layer that is an MLP, or experts, alone: it needs no cache.
struct NoMixer {};

struct LayerConfig {
  std::variant<AttentionLayer, RecurrentShape, ConvolutionShape, StateSpaceShape, SelectiveScanShape, NoMixer> mixer;
  std::optional<StateSpaceShape> beside = {};  // reads what attention reads, and has a cache behind that of attention
  int intermediate = 0;                        // of the MLP
  bool mlp_bias = false;
  /// Gates below the mean of their row and so many of its deviations become 0, the others what they are above it.
  std::optional<double> gate_cutoff = {};
  bool gated = true;  // the MLP is down(activation(gate x) * up x), else down(activation(up x))
  Experts experts = {};
};

/// The sizes of the cache of a layer that recurs, alone or beside attention; nothing for another one.
std::optional<ConvolvedSizes> recurrent_sizes(const LayerConfig& layer) noexcept;
/// The Mamba-2 of a layer, alone or beside attention; nullptr when it has none.
const StateSpaceShape* find_state_space(const LayerConfig& layer) noexcept;

struct TransformerConfig {
  int vocabulary = 0;
  int hidden = 0;
  int context = 0;       // max_position_embeddings, at most that of RoPE
  int long_context = 0;  // the same with the long factors of longrope, where the model has them; else 0
  float epsilon = 0;     // of all norms
  Norm norm = Norm::rms;
  float norm_offset = 0;  // what norms add to the stored weights
  float embedding_scale = 1;
  bool embedding_norm = false;  // the final norm is also that of the embedding
  bool sub_norms = false;       // norms of what attention and gates give, before it is projected
  bool head_bias = false;       // of logits
  float residual_scale = 1;     // of what attention and MLP add to the stream
  float logit_scale = 1;
  int layer_embedding = 0;    // values that a token has of its own for each layer; 0: none
  int streams = 1;            // of each position (gemma3n.cpp), whose first one layers compute
  bool scaled_output = true;  // of that one, before what a token has of its own is added to the others
  int laurel_rank = 0;        // of the matrices beside attention; 0: there are none
  float logit_cap = 0;        // logits become cap * tanh(logit / cap); 0: they stay
  Activation activation = Activation::silu;
  ClampedSwiglu swiglu = {};
  std::vector<Rope> ropes;
  std::vector<LayerConfig> layers;
  int mtp_heads = 0;                // that the checkpoint says it has beside the model, see mtp.h
  bool assisted = false;            // assistants are made for this architecture, see gemma4_assistant.h
  std::vector<std::string> unused;  // what the names of tensors of other parts of a checkpoint begin with

  int depth() const noexcept { return static_cast<int>(layers.size()); }
  const AttentionLayer& attention(int layer) const;  // aborts when the layer has none
  /// The number of layers with a cache of their own. Those whose keys and values others have are the last layers.
  int cached_layers() const noexcept;
  /// The place of a layer's first cache among those of all layers.
  int cache_of(int layer) const noexcept;
};

/// What fields mean that a config of some class leaves out; without a value they are required.
struct Defaults {
  std::optional<int> layers = {};
  std::optional<int> vocabulary = {};
  std::optional<int> context = {};
  std::optional<int> heads = {};
  std::optional<int> kv_heads = {};
  std::optional<int> head_dim = {};
  std::optional<double> epsilon = {};
  const char* epsilon_field = "rms_norm_eps";
};

/// What an architecture has of the fields that change the computation; of one that it does not have, any value but the
/// usual is refused.
struct Features {
  const char* activation = "silu";  // hidden_act
  bool multipliers = false;         // the architecture reads them itself: of Granite, the scale of logits
  bool partial_rotary = false;
};

/// Reads the config.json of an architecture with the shape of Llama: every layer has attention of one geometry, over
/// everything or a sliding window, and an MLP of one size with SiLU. Throws Error, naming file and field, when a field
/// is missing, negative or contradictory, when the activation is unknown, and for every switch that would change the
/// computation and is not implemented.
TransformerConfig read_transformer_config(const Json& config, const Defaults& defaults = {},
                                          const Features& features = {});

/// The same without what may differ between layers of one kind and another: RoPE and windows.
TransformerConfig read_uniform_layers(const Json& config, const Defaults& defaults = {}, const Features& features = {});

/// The same of a target. A draft brings its own cap of the target's logits; here one is refused.
TransformerConfig read_target_config(const Json& config, const Defaults& defaults = {}, const Features& features = {});

/// Limits the context to the longest text that RoPE is for; what it was becomes long_context. Done again it changes
/// nothing.
void limit_context(TransformerConfig& config);

/// Returns the config of the text part of a multimodal checkpoint, `text_config`; of other configs all.
Json text_config(const Json& config);

// The parts of it, for architectures of another shape.

/// Reads a width or a count. `default_value`: of a missing field; without it the field is required.
int positive(const Json& config, std::string_view field, std::optional<int> default_value = {});

/// Throws Error, saying why, when the field is neither missing nor false.
void refuse_if_set(const Json& config, std::string_view field, const std::string& why);

/// Throws Error when `field` is there and names another activation of the MLPs.
void require_activation(const Json& config, std::string_view field, const std::string& name);

/// Throws Error unless the config states rope_theta: classes of transformers have defaults of their own.
void require_rope_theta(const Json& config);

/// Throws Error when RoPE shall turn a part of a head only, in a field of the config or of its RoPE.
void refuse_partial_rotary(const Json& config);

/// Reads vocabulary, hidden, context and epsilon, makes num_hidden_layers layers, and refuses unknown switches.
TransformerConfig read_sizes(const Json& config, const Defaults& defaults = {}, const Features& features = {});

/// Reads a positive factor, 1 where the field is missing.
float read_factor(const Json& config, std::string_view field);

/// Reads how many dimensions of a head RoPE turns: all but for a partial_rotary_factor.
int read_rotary_width(const Json& config, int head_dim);

/// Reads heads, kv_heads and head_dim; the scale is 1 / sqrt(head_dim).
AttentionShape read_attention_shape(const Json& config, int hidden, const Defaults& defaults = {});

/// Reads the window of each layer from layer_types or use_sliding_window.
std::vector<int> read_windows(const Json& config, int layers);

/// Reads whether each layer slides: from layer_types or else all but every `period`-th.
std::vector<bool> read_sliding(const Json& config, int layers, int period);

/// Gives all layers the same norms of q and k.
void set_qk_norm(QkNorm norm, TransformerConfig& of);

/// Gives all layers one window. Throws Error when the config lists layer_types that say otherwise.
void set_window(const Json& config, int window, TransformerConfig& of);
/// Reads sliding_window; null means that layers see everything.
int read_window(const Json& config);

}  // namespace draftproof
