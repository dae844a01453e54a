// SPDX-License-Identifier: MIT
#include "ref/models/gemma4.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/threads.h"
#include "ref/models/causal_transformer.h"
#include "ref/models/experts.h"
#include "ref/models/gemma.h"
#include "ref/models/layer_embeddings.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

// Those of transformers' Gemma4TextConfig and Gemma4UnifiedTextConfig, which differ in the context and the window, and
// only the first has embeddings for each layer.
constexpr int default_vocabulary = 262144;
constexpr int default_period = 6;
constexpr int default_full_head_dim = 512;
constexpr int default_layer_embedding = 256;
constexpr int experts_max = 1 << 16;

constexpr LayerTypeRope full_rope = {"full_attention", nullptr, 1e6, false};
constexpr LayerTypeRope sliding_rope = {"sliding_attention", nullptr, 1e4, false};
constexpr double default_turned_part = 0.25;  // of full layers

bool said(const Json& json, const char* field) {
  const auto value = json.find(field);
  return value && value->boolean();
}

bool is_unified(const Json& json) {
  const auto type = json.find("model_type");
  return type && type->string().starts_with("gemma4_unified");
}

/// The heads of layers of full attention where no per_layer_config says it.
AttentionShape read_full_shape(const Json& json, AttentionShape shape) {
  shape.head_dim = positive(json, "global_head_dim", default_full_head_dim);
  if (said(json, "attention_k_eq_v")) {
    shape.kv_heads = positive(json, "num_global_key_value_heads", shape.kv_heads);
  }
  return shape;
}

/// Checks what the config says of a layer in fields of their own.
void require_whole_shape(const Json& json, const AttentionShape& shape) {
  if (shape.heads % shape.kv_heads != 0) {
    json.fail("gives a layer " + std::to_string(shape.kv_heads) + " KV heads, which must divide the number of heads, " +
              std::to_string(shape.heads));
  }
  if (shape.head_dim % 2 != 0) json.fail("gives a layer heads of an odd number of values; RoPE turns pairs");
}

/// Replaces what an entry of per_layer_config says of a layer.
void read_own_shape(const Json& own, AttentionShape& shape) {
  for (const std::string& name : own.fields()) {
    if (name == "head_dim") shape.head_dim = positive(own, name);
    else if (name == "num_key_value_heads") shape.kv_heads = positive(own, name);
    else own.at(name).fail("is not implemented for single layers");
  }
}

Experts read_parallel_experts(const Json& json) {
  Experts experts;
  experts.count = static_cast<int>(json.at("num_experts").integer(1, experts_max));
  experts.chosen = static_cast<int>(json.at("top_k_experts").integer(1, experts.count));
  experts.intermediate = positive(json, "moe_intermediate_size");
  experts.normalized = true;
  return experts;
}

/// The width of what each token has of its own for each layer, 0 for none.
int read_layer_embedding(const Json& json, int vocabulary) {
  const auto field = json.find("hidden_size_per_layer_input");
  if (!field && (is_unified(json) || json.has("hidden_size_per_layer_input"))) return 0;
  const int width = field ? static_cast<int>(field->integer(0, 1 << 16)) : default_layer_embedding;
  if (width > 0 && positive(json, "vocab_size_per_layer_input", default_vocabulary) < vocabulary) {
    json.at("vocab_size_per_layer_input").fail("must not be below vocab_size, " + std::to_string(vocabulary));
  }
  return width;
}

std::vector<Rope> read_ropes(const Json& json, int full_dim, int sliding_dim) {
  refuse_if_set(json, "rope_scaling", "is not implemented; Gemma 4 has rope_parameters for each layer type");
  const auto blocks = json.find("rope_parameters");
  if (!blocks)
    return {proportional_rope(full_rope.theta, full_dim, default_turned_part),
            default_rope(sliding_rope.theta, sliding_dim)};
  for (const LayerTypeRope& of : {full_rope, sliding_rope}) blocks->at(of.type);
  return {read_rope(json, full_dim, full_rope), read_rope(json, sliding_dim, sliding_rope)};
}

struct Gemma4Layer : GemmaLayer {
  // Of layers with experts.
  ExpertsWeights experts;
  std::vector<float> router_norm;       // [hidden], "router.scale"
  std::vector<float> expert_scales;     // [experts]
  std::vector<float> dense_out_norm;    // [hidden], "post_feedforward_layernorm_1"
  std::vector<float> experts_norm;      // [hidden], "pre_feedforward_layernorm_2"
  std::vector<float> experts_out_norm;  // [hidden], "post_feedforward_layernorm_2"
  LayerEmbeddingWeights embedding;      // of models that have them
  float scalar = 1;                     // what the stream is multiplied by
};

class Gemma4 final : public CausalTransformer {
 public:
  Gemma4(const WeightLoader& from, const TransformerConfig& description) : CausalTransformer(from, description) {
    if (config().layer_embedding > 0) {
      const Json json = text_config(from.weights.config());
      embeddings_.emplace(from, config(), positive(json, "vocab_size_per_layer_input", default_vocabulary));
    }
    for (int i = 0; i < layers(); ++i) layers_.push_back(load_layer(from, i));
    stretch_rope(from, rope(0));
  }

 private:
  Gemma4Layer load_layer(const WeightLoader& from, int i) const {
    const AttentionLayer& attention = config().attention(i);
    const auto norm = [&](const char* name) { return load_norm(from, config(), prefix(i) + name, hidden()); };
    Gemma4Layer one;
    static_cast<GemmaLayer&>(one) = load_gemma_layer(from, config(), i, prefix(i));
    load_head_norms(from, config(), attention, prefix(i) + "self_attn.", one.attention);
    if (attention.donor == AttentionLayer::own) {
      one.attention.v_norm.assign(static_cast<std::size_t>(attention.shape.head_dim), 1);
    }
    if (const Experts& experts = experts_of(i); experts.count > 0) {
      one.experts = load_experts(from, hidden(), experts, prefix(i), {.router = "router.proj.weight"});
      one.router_norm = norm("router.scale");
      one.expert_scales = from.floats(prefix(i) + "router.per_expert_scale", {experts.count});
      one.dense_out_norm = norm("post_feedforward_layernorm_1.weight");
      one.experts_norm = norm("pre_feedforward_layernorm_2.weight");
      one.experts_out_norm = norm("post_feedforward_layernorm_2.weight");
    }
    if (embeddings_) one.embedding = load_layer_embedding(from, config(), prefix(i));
    one.scalar = load_layer_scalar(from, prefix(i));
    return one;
  }

  const Experts& experts_of(int i) const { return config().layers[static_cast<std::size_t>(i)].experts; }

  void begin(const TransformerPass& pass, std::span<const Segment> batch) override {
    if (embeddings_) embeddings_->compute(pass, batch);
  }

  void layer(const TransformerPass& pass, int i) override {
    const Gemma4Layer& weights = layers_[static_cast<std::size_t>(i)];
    gemma_attention(pass, i, weights);
    pass.normalize(weights.mlp_norm);
    pass.mlp(weights.mlp);
    if (experts_of(i).count > 0) add_experts(pass, i, weights);
    pass.normalize_projected(weights.mlp_out_norm);
    pass.add_projected();
    if (embeddings_) {
      embeddings_->mix(pass, i, weights.embedding, pass.scratch.hidden_states.data());
      pass.add_projected();
    }
    if (weights.scalar != 1) multiply(pass, weights.scalar, pass.scratch.hidden_states.data());
  }

  /// projected = norm(projected) + norm(the experts of norm(hidden_states)), which the hidden states themselves choose.
  void add_experts(const TransformerPass& pass, int i, const Gemma4Layer& weights) {
    TransformerScratch& s = pass.scratch;
    const Experts& experts = experts_of(i);
    const std::size_t size = static_cast<std::size_t>(pass.rows) * static_cast<std::size_t>(hidden());
    pass.normalize_projected(weights.dense_out_norm);
    dense_.assign(s.projected.begin(), s.projected.begin() + static_cast<std::ptrdiff_t>(size));
    pass.normalize(weights.router_norm);
    multiply(pass, static_cast<float>(1 / std::sqrt(static_cast<double>(hidden()))), s.normed.data());
    const Choices choices = route(pass, experts, weights.experts, experts_scratch_, weights.expert_scales);
    pass.normalize(weights.experts_norm);
    mix_experts(pass, experts, weights.experts, choices, experts_scratch_);
    pass.normalize_projected(weights.experts_out_norm);
    for_rows(pass.rows, 2.0 * pass.rows * hidden(), [&](int begin, int end) {
      const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(begin) * hidden();
      const std::size_t count = static_cast<std::size_t>(end - begin) * static_cast<std::size_t>(hidden());
      pass.kernels.add(dense_.data() + first, count, s.projected.data() + first);
    });
  }

  std::vector<Gemma4Layer> layers_;
  std::optional<LayerEmbeddings> embeddings_;
  std::vector<float> dense_;  // [rows][hidden]: the MLP beside experts
  ExpertsScratch experts_scratch_;
};

}  // namespace

float load_layer_scalar(const WeightLoader& from, const std::string& prefix) {
  const std::string name = prefix + "layer_scalar";
  if (!from.weights.has(name)) return 1;
  const std::vector<float> stored = from.floats(name, {1});
  return stored.empty() ? 1 : stored[0];  // empty where it is only counted
}

TransformerConfig describe_gemma4_layers(const Json& json) {
  const bool unified = is_unified(json);
  const Defaults defaults = {.vocabulary = default_vocabulary,
                             .context = unified ? 262144 : 131072,
                             .heads = 8,
                             .kv_heads = 4,
                             .head_dim = 256,
                             .epsilon = 1e-6};
  TransformerConfig config = read_gemma_config(json, defaults, 0);
  const auto both = json.find("use_bidirectional_attention");
  if (both && !(both->is_string() && both->string() == "vision")) {
    refuse_if_set(json, "use_bidirectional_attention", "rows that see later rows cannot generate text");
  }
  config.unused = {"vision_tower.",      "audio_tower.",          "embed_vision.",      "embed_audio.",
                   "vision_embedder.",   "model.vision_tower.",   "model.audio_tower.", "model.embed_vision.",
                   "model.embed_audio.", "model.vision_embedder."};
  config.layer_embedding = read_layer_embedding(json, config.vocabulary);

  AttentionShape sliding_shape = read_attention_shape(json, config.hidden, defaults);
  sliding_shape.scale = 1;
  const auto each = json.find("per_layer_config");
  const AttentionShape full_shape = each ? sliding_shape : read_full_shape(json, sliding_shape);
  const int window = read_gemma_window(json, unified ? 1024 : 512);
  const int intermediate = positive(json, "intermediate_size");
  std::vector<bool> sliding = read_sliding(json, config.depth(), default_period);
  sliding.back() = false;  // whatever layer_types says
  std::optional<int> dims[2];
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    AttentionLayer attention;
    attention.shape = sliding[i] ? sliding_shape : full_shape;
    if (const auto own = each ? each->find(std::to_string(i)) : std::nullopt) read_own_shape(*own, attention.shape);
    require_whole_shape(json, attention.shape);
    attention.window = sliding[i] ? window : AttentionCache::everything;
    attention.rope = sliding[i] ? 1 : 0;
    attention.values_from_keys = !sliding[i] && said(json, "attention_k_eq_v");
    std::optional<int>& dim = dims[attention.rope];
    if (dim && *dim != attention.shape.head_dim) {
      each->fail("gives layers of one type heads of different sizes, which is not implemented");
    }
    dim = attention.shape.head_dim;
    config.layers[i].mixer = attention;
    config.layers[i].intermediate = intermediate;
    if (said(json, "enable_moe_block")) config.layers[i].experts = read_parallel_experts(json);
  }
  config.ropes = read_ropes(json, *dims[0], dims[1].value_or(sliding_shape.head_dim));
  return config;
}

namespace {

/// Of a text model, or of a multimodal or unified one.
TransformerConfig describe_model(const Json& whole) {
  const Json json = text_config(whole);
  require_model_type(json, {"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"});
  TransformerConfig config = describe_gemma4_layers(json);
  config.assisted = true;
  share_keys(json, config);
  if (said(json, "use_double_wide_mlp")) {
    for (int i = config.cached_layers(); i < config.depth(); ++i) {
      config.layers[static_cast<std::size_t>(i)].intermediate *= 2;
    }
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Gemma4>(from, config);
}

constexpr ArchitectureName names[] = {
    {"gemma4_text", "Gemma4ForCausalLM"},
    {"gemma4", "Gemma4ForConditionalGeneration"},
    {"gemma4_unified_text", "Gemma4UnifiedForCausalLM"},
    {"gemma4_unified", "Gemma4UnifiedForConditionalGeneration"},
};

}  // namespace

const Architecture gemma4_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
