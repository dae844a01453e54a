// SPDX-License-Identifier: MIT
// LFM2 (Hugging Face and GGUF `lfm2`; with experts `lfm2_moe`, `lfm2moe`): layers of gated short convolutions
// (short_convolution.h) and of attention with norms of q and k, as layer_types or full_attn_idxs say, each followed by
// SwiGLU or, from layer num_dense_layers on, experts. The norm of what leaves the layers is called that of the
// embedding.
// Source: transformers, models/lfm2 and lfm2_moe; llama.cpp's conversion of them.
#include <cmath>
#include <variant>

#include "ref/models/causal_convolution.h"
#include "ref/models/causal_transformer.h"
#include "ref/models/experts.h"
#include "ref/models/models.h"
#include "ref/models/short_convolution.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.context = 128000, .epsilon = 1e-5, .epsilon_field = "norm_eps"};
constexpr int taps_max = 64;  // no real convolution comes near it
constexpr ExpertNames expert_names = {.choice_bias = "expert_bias", .gate = "w1", .up = "w3", .down = "w2"};
constexpr TensorNames tensors = {.norm = "model.embedding_norm.weight"};

AttentionWeights load_attention(const WeightLoader& from, const TransformerConfig& config, const AttentionLayer& layer,
                                const std::string& prefix) {
  AttentionWeights weights;
  weights.qkv = load_matrix(from,
                            {{prefix + "q_proj.weight", layer.q_width()},
                             {prefix + "k_proj.weight", layer.kv_width()},
                             {prefix + "v_proj.weight", layer.kv_width()}},
                            config.hidden);
  weights.output = load_matrix(from, {{prefix + "out_proj.weight", config.hidden}}, layer.q_width());
  weights.q_norm = load_norm(from, config, prefix + "q_layernorm.weight", layer.shape.head_dim);
  weights.k_norm = load_norm(from, config, prefix + "k_layernorm.weight", layer.shape.head_dim);
  return weights;
}

ShortConvolutionWeights load_convolution(const WeightLoader& from, int hidden, const ConvolutionShape& shape,
                                         const std::string& prefix) {
  ShortConvolutionWeights weights;
  weights.in = load_matrix(from, {{prefix + "in_proj.weight", 3 * shape.channels}}, hidden);
  weights.out = load_matrix(from, {{prefix + "out_proj.weight", hidden}}, shape.channels);
  weights.taps = load_taps(from, prefix + "conv.weight", shape.channels, shape.width);
  return weights;
}

MlpWeights load_mlp(const WeightLoader& from, int hidden, int intermediate, const std::string& prefix) {
  MlpWeights weights;
  weights.gate_up =
      load_matrix(from, {{prefix + "w1.weight", intermediate}, {prefix + "w3.weight", intermediate}}, hidden);
  weights.down = load_matrix(from, {{prefix + "w2.weight", hidden}}, intermediate);
  return weights;
}

class Lfm2 final : public CausalTransformer {
 public:
  Lfm2(const WeightLoader& from, const TransformerConfig& description) : CausalTransformer(from, description, tensors) {
    for (int i = 0; i < layers(); ++i) {
      const LayerConfig& layer = config().layers[static_cast<std::size_t>(i)];
      Layer& weights = layers_.emplace_back();
      if (const auto* const shape = std::get_if<ConvolutionShape>(&layer.mixer)) {
        weights.mixer = load_convolution(from, hidden(), *shape, prefix(i) + "conv.");
      } else {
        weights.mixer = load_attention(from, config(), config().attention(i), prefix(i) + "self_attn.");
      }
      weights.mixer_norm = load_norm(from, config(), prefix(i) + "operator_norm.weight", hidden());
      weights.mlp_norm = load_norm(from, config(), prefix(i) + "ffn_norm.weight", hidden());
      const std::string mlp = prefix(i) + "feed_forward.";
      if (layer.experts.count == 0) weights.mlp = load_mlp(from, hidden(), layer.intermediate, mlp);
      else weights.experts = load_experts(from, hidden(), layer.experts, mlp, expert_names);
    }
  }

 private:
  struct Layer {
    std::variant<AttentionWeights, ShortConvolutionWeights> mixer;
    std::vector<float> mixer_norm, mlp_norm;  // [hidden]
    MlpWeights mlp;
    ExpertsWeights experts;  // instead of the MLP
  };

  void layer(const TransformerPass& pass, int i) override {
    const Layer& weights = layers_[static_cast<std::size_t>(i)];
    pass.normalize(weights.mixer_norm);
    if (const auto* const convolution = std::get_if<ShortConvolutionWeights>(&weights.mixer)) {
      convolve(pass, i, *convolution);
    } else {
      pass.self_attention(i, std::get<AttentionWeights>(weights.mixer));
    }
    pass.add_projected();
    pass.normalize(weights.mlp_norm);
    feed_forward(pass, i, weights.mlp, weights.experts, experts_);
    pass.add_projected();
  }

  void convolve(const TransformerPass& pass, int i, const ShortConvolutionWeights& weights) {
    caches_.clear();
    for (Cache* const cache : pass.scratch.caches) caches_.push_back(&cache->layer<ConvolutionCache>(i));
    const auto& shape = std::get<ConvolutionShape>(pass.config.layers[static_cast<std::size_t>(i)].mixer);
    short_convolution(pass.kernels, shape, weights, pass.scratch.normed.data(), pass.rows, pass.scratch.ranges,
                      convolution_, caches_, pass.scratch.projected.data());
  }

  std::vector<Layer> layers_;
  ShortConvolutionScratch convolution_;
  ExpertsScratch experts_;
  std::vector<ConvolutionCache*> caches_;  // of each segment, in the layer that is computed
};

/// block_ff_dim, as older configs spell intermediate_size, and what it becomes where it is adjusted: two thirds, times
/// block_ffn_dim_multiplier, as a multiple of block_multiple_of. A multiplier of null leaves the two thirds as they
/// are.
int read_intermediate(const Json& config) {
  const int stated = positive(config, config.find("block_ff_dim") ? "block_ff_dim" : "intermediate_size");
  const auto adjust = config.find("block_auto_adjust_ff_dim");
  if (adjust && !adjust->boolean()) return stated;
  const auto factor = config.find("block_ffn_dim_multiplier");
  const int multiple = positive(config, "block_multiple_of", 256);
  const double part = std::floor(2.0 * stated / 3);
  if (!factor && config.has("block_ffn_dim_multiplier") && part >= 1) return static_cast<int>(part);
  const double wanted = std::floor((factor ? factor->number() : 1) * part);
  const double width = std::ceil(wanted / multiple) * multiple;
  if (!(width >= 1 && width <= 1 << 24)) {
    factor.value_or(config).fail("makes an MLP of another size than any real model's");
  }
  return static_cast<int>(width);
}

/// Whether each layer has attention; the others convolve.
std::vector<bool> read_kinds(const Json& config, int layers) {
  std::vector<bool> attention(static_cast<std::size_t>(layers), false);
  const auto types = config.find("layer_types");
  if (!types) {
    const auto listed = config.find("full_attn_idxs");
    if (!listed) config.at("layer_types");
    for (const std::int64_t i : listed->integers(0, layers - 1)) attention[static_cast<std::size_t>(i)] = true;
    return attention;
  }
  if (!types->is_array() || types->size() != attention.size()) {
    types->fail("must list one type for each of the " + std::to_string(layers) + " layers");
  }
  for (std::size_t i = 0; i < types->size(); ++i) {
    const Json type = (*types)[i];
    attention[i] = type.string() == "full_attention";
    if (!attention[i] && type.string() != "conv") {
      type.fail("layer type '" + type.string() + "' is not part of this architecture");
    }
  }
  return attention;
}

/// Gives experts to all layers but the first num_dense_layers.
void put_experts(const Json& json, TransformerConfig& to) {
  Experts experts = read_experts(json, "moe_intermediate_size");
  const auto biased = json.find("use_expert_bias");
  experts.scores = RouterScores::sigmoid;
  experts.choice_bias = !biased || biased->boolean();
  experts.normalized = !json.find("norm_topk_prob") || read_norm_topk_prob(json);
  experts.sum_added = 1e-6;
  experts.scale = read_factor(json, "routed_scaling_factor");
  const auto dense = json.find("num_dense_layers");
  for (int i = dense ? static_cast<int>(dense->integer(0, to.depth())) : 2; i < to.depth(); ++i) {
    LayerConfig& layer = to.layers[static_cast<std::size_t>(i)];
    layer.experts = experts;
    layer.intermediate = 0;
  }
}

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_sizes(json, defaults);
  refuse_if_set(json, "conv_bias", "biased convolutions are not implemented");
  refuse_if_set(json, "final_logit_softcapping", "soft-capped logits are not implemented");
  refuse_partial_rotary(json);
  require_rope_theta(json);
  const AttentionLayer attention = {.shape = read_attention_shape(json, config.hidden), .qk_norm = QkNorm::heads};
  const ConvolutionShape convolution = {.channels = config.hidden,
                                        .width = static_cast<int>(json.at("conv_L_cache").integer(2, taps_max))};
  config.ropes = {read_rope(json, attention.shape.head_dim)};
  const bool mixes = json.at("model_type").string() == "lfm2_moe";
  const int intermediate = mixes ? positive(json, "intermediate_size") : read_intermediate(json);
  const std::vector<bool> kinds = read_kinds(json, config.depth());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    config.layers[i].intermediate = intermediate;
    if (kinds[i]) config.layers[i].mixer = attention;
    else config.layers[i].mixer = convolution;
  }
  if (mixes) put_experts(json, config);
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Lfm2>(from, config);
}

constexpr ArchitectureName names[] = {{"lfm2", "Lfm2ForCausalLM"}, {"lfm2_moe", "Lfm2MoeForCausalLM"}};

}  // namespace

const Architecture lfm2_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
