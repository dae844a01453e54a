// SPDX-License-Identifier: MIT
// DeepSeek V2 and V3 (Hugging Face `deepseek_v2`, `deepseek_v3`), Kimi K2 (`kimi_k2`, the same as V3) and GLM-4.7-Flash
// (`glm4_moe_lite`): multi-head latent attention (latent_attention.h), then an MLP in the first layers and experts with
// shared ones in the others. V2 has experts chosen by a softmax, whose weights are not made to add up to 1. Source:
// transformers, models/deepseek_v2, deepseek_v3 and glm4_moe_lite; the config of Kimi K2.
#include <algorithm>
#include <cmath>
#include <string>

#include "ref/models/causal_transformer.h"
#include "ref/models/experts.h"
#include "ref/models/latent_attention.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr ExpertNames expert_names = {.shared = "shared_experts."};

struct DeepSeekLayer {
  LatentWeights attention;
  std::vector<float> attention_norm, mlp_norm;  // [hidden]
  MlpWeights mlp;
  ExpertsWeights experts;  // instead of the MLP
};

DeepSeekLayer load_layer(const WeightLoader& from, const TransformerConfig& config, int i, const std::string& prefix) {
  const LayerConfig& layer = config.layers[static_cast<std::size_t>(i)];
  DeepSeekLayer weights;
  weights.attention = load_latent_attention(from, config, config.attention(i), prefix + "self_attn.");
  weights.attention_norm = load_norm(from, config, prefix + "input_layernorm.weight", config.hidden);
  weights.mlp_norm = load_norm(from, config, prefix + "post_attention_layernorm.weight", config.hidden);
  const std::string mlp = prefix + "mlp.";
  if (layer.experts.count == 0) weights.mlp = load_mlp(from, config.hidden, layer.intermediate, false, mlp);
  else weights.experts = load_experts(from, config.hidden, layer.experts, mlp, expert_names);
  return weights;
}

struct DeepSeekScratch {
  LatentScratch attention;
  ExpertsScratch experts;
};

/// Computes layer `i`. kv and visible are set.
void compute_layer(const TransformerPass& pass, int i, const DeepSeekLayer& weights, DeepSeekScratch& scratch) {
  pass.normalize(weights.attention_norm);
  latent_attention(pass, i, weights.attention, scratch.attention);
  pass.add_projected();
  pass.normalize(weights.mlp_norm);
  feed_forward(pass, i, weights.mlp, weights.experts, scratch.experts);
  pass.add_projected();
}

class DeepSeek final : public CausalTransformer {
 public:
  DeepSeek(const WeightLoader& from, const TransformerConfig& description) : CausalTransformer(from, description) {
    for (int i = 0; i < layers(); ++i) layers_.push_back(load_layer(from, config(), i, prefix(i)));
  }

 private:
  void layer(const TransformerPass& pass, int i) override {
    pass.see(i);
    compute_layer(pass, i, layers_[static_cast<std::size_t>(i)], scratch_);
  }

  std::vector<DeepSeekLayer> layers_;
  DeepSeekScratch scratch_;
};

/// The layer of an MTP head, which is like the last one of the model.
class DeepSeekBlock final : public MtpBlock {
 public:
  DeepSeekBlock(const WeightLoader& from, const TransformerConfig& config, int layer, const std::string& prefix)
      : weights_(load_layer(from, config, layer, prefix)) {}

  void compute(const TransformerPass& pass, int layer) override { compute_layer(pass, layer, weights_, scratch_); }

 private:
  DeepSeekLayer weights_;
  DeepSeekScratch scratch_;
};

std::unique_ptr<MtpBlock> load_block(const WeightLoader& from, const TransformerConfig& config, int layer,
                                     const std::string& prefix) {
  return std::make_unique<DeepSeekBlock>(from, config, layer, prefix);
}

constexpr MtpBlocks blocks = {describe_like_last, load_block};

/// Throws Error, naming the field, when it is there and has another value.
void require_string(const Json& json, const char* field, const std::string& value) {
  const auto said = json.find(field);
  if (said && said->string() != value)
    said->fail("'" + said->string() + "' is not implemented; only '" + value + "' is");
}

AttentionLayer read_attention(const Json& json) {
  AttentionLayer layer = read_latent_attention(json);
  const double scale = read_score_factor(json) / std::sqrt(static_cast<double>(query_width(layer)));
  layer.shape.scale = static_cast<float>(scale);
  layer.interleaved = !json.find("rope_interleave") || json.at("rope_interleave").boolean();
  layer.qkv_bias = json.find("attention_bias") && json.at("attention_bias").boolean();
  layer.output_bias = layer.qkv_bias;
  return layer;
}

/// V2's: softmax scores, as they are; groups are ranked by their best expert.
void read_softmax_router(const Json& json, Experts& to) {
  require_string(json, "scoring_func", "softmax");
  if (read_norm_topk_prob(json)) json.at("norm_topk_prob").fail("weights that add up to 1 are not implemented here");
  to.scale = read_factor(json, "routed_scaling_factor");
  to.group_rank = GroupRank::best;
  put_shared_expert(json, "n_shared_experts", 2, to);
  const auto method = json.find("topk_method");
  if (!method || method->string() == "greedy") return;
  if (method->string() != "group_limited_greedy") {
    method->fail("'" + method->string() + "' is not implemented; only 'greedy' and 'group_limited_greedy' are");
  }
  json.at("n_group");
  json.at("topk_group");
  read_groups(json, to);
}

/// V3's. Defaults differ between the classes, so what they differ in must be stated.
void read_sigmoid_router(const Json& json, Experts& to) {
  require_string(json, "scoring_func", "sigmoid");
  require_string(json, "topk_method", "noaux_tc");
  json.at("n_group");
  json.at("topk_group");
  json.at("routed_scaling_factor");
  read_grouped_router(json, to);
}

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_sizes(json, {.epsilon = 1e-6});
  const std::string type = json.at("model_type").string();
  require_activation(json, "hidden_act", "silu");
  refuse_partial_rotary(json);
  refuse_if_set(json, "mlp_bias", "biases of MLPs are not implemented here");
  refuse_if_set(json, "final_logit_softcapping", "soft-capped logits are not implemented");
  if (positive(json, "moe_layer_freq", 1) != 1) json.at("moe_layer_freq").fail("must be 1");
  const AttentionLayer attention = read_attention(json);
  config.ropes = {read_rope(json, attention.shape.head_dim - attention.shape.latent)};
  for (LayerConfig& layer : config.layers) {
    layer.mixer = attention;
    layer.intermediate = positive(json, "intermediate_size");
  }
  set_window(json, AttentionCache::everything, config);
  Experts experts = read_experts(json, "moe_intermediate_size", {.count = "n_routed_experts"});
  if (type == "deepseek_v2") read_softmax_router(json, experts);
  else read_sigmoid_router(json, experts);
  if (type == "glm4_moe_lite" && !json.find("mlp_layer_types")) put_experts_behind(json, experts, config);
  else put_experts_by_type(json, experts, config);
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<DeepSeek>(from, config);
}

constexpr ArchitectureName names[] = {{"deepseek_v3", "DeepseekV3ForCausalLM"},
                                      {"deepseek_v2", "DeepseekV2ForCausalLM"},
                                      {"kimi_k2", "DeepseekV3ForCausalLM"},
                                      {"glm4_moe_lite", "Glm4MoeLiteForCausalLM"}};

}  // namespace

const Architecture deepseek_architecture = {.names = names, .describe = describe_model, .load = load, .mtp = &blocks};

}  // namespace draftproof
