// SPDX-License-Identifier: MIT
// Kimi Linear (Hugging Face `kimi_linear`, GGUF `kimi-linear`): layers of Kimi Delta Attention (kimi_delta_attention.h)
// and of latent attention (latent_attention.h) that RoPE turns nothing of, then an MLP in the first layers and experts
// with shared ones in the others, chosen as in DeepSeek V3. Source: transformers, models/kimi_linear; the configs that
// Moonshot publishes, which spell some fields in another way.
#include <algorithm>
#include <cmath>
#include <variant>

#include "ref/models/causal_transformer.h"
#include "ref/models/experts.h"
#include "ref/models/kimi_delta_attention.h"
#include "ref/models/latent_attention.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr int width_max = 1 << 24;  // no width of a real checkpoint comes near it
constexpr int taps_max = 64;        // nor any convolution
constexpr ExpertNames expert_names = {.gate = "w1", .up = "w3", .down = "w2", .shared = "shared_experts."};
constexpr GroupedRouterFields router_fields = {.normalized = "moe_renormalize",
                                               .groups = "num_expert_group",
                                               .groups_chosen = "topk_group",
                                               .chosen = "num_experts_per_token",
                                               .shared = "num_shared_experts"};

class KimiLinear final : public CausalTransformer {
 public:
  KimiLinear(const WeightLoader& from, const TransformerConfig& description) : CausalTransformer(from, description) {
    for (int i = 0; i < layers(); ++i) {
      const LayerConfig& layer = config().layers[static_cast<std::size_t>(i)];
      const std::string mixer = prefix(i) + "self_attn.";
      const std::string experts = prefix(i) + "block_sparse_moe.";
      Layer& weights = layers_.emplace_back();
      if (const auto* const shape = std::get_if<RecurrentShape>(&layer.mixer)) {
        weights.mixer = load_kimi_delta(from, hidden(), *shape, mixer);
      } else {
        weights.mixer = load_latent_attention(from, config(), config().attention(i), mixer);
      }
      weights.mixer_norm = load_norm(from, config(), prefix(i) + "input_layernorm.weight", hidden());
      weights.mlp_norm = load_norm(from, config(), prefix(i) + "post_attention_layernorm.weight", hidden());
      if (layer.experts.count > 0) {
        weights.experts = load_experts(from, hidden(), layer.experts, experts, expert_names);
      } else {  // transformers saves an MLP as if it were of experts
        const bool renamed = from.weights.has(experts + "gate_proj.weight");
        weights.mlp = load_mlp(from, hidden(), layer.intermediate, false, renamed ? experts : prefix(i) + "mlp.");
      }
    }
  }

 private:
  struct Layer {
    std::variant<LatentWeights, KimiDeltaWeights> mixer;
    std::vector<float> mixer_norm, mlp_norm;  // [hidden]
    MlpWeights mlp;
    ExpertsWeights experts;  // instead of the MLP
  };

  void layer(const TransformerPass& pass, int i) override {
    const Layer& weights = layers_[static_cast<std::size_t>(i)];
    pass.normalize(weights.mixer_norm);
    if (const auto* const recurrent = std::get_if<KimiDeltaWeights>(&weights.mixer)) {
      kimi_delta_attention(pass, i, *recurrent, delta_);
    } else {
      pass.see(i);
      latent_attention(pass, i, std::get<LatentWeights>(weights.mixer), latent_);
    }
    pass.add_projected();
    pass.normalize(weights.mlp_norm);
    feed_forward(pass, i, weights.mlp, weights.experts, experts_);
    pass.add_projected();
  }

  std::vector<Layer> layers_;
  KimiDeltaScratch delta_;
  LatentScratch latent_;
  ExpertsScratch experts_;
};

void refuse_variants(const Json& json) {
  require_activation(json, "hidden_act", "silu");
  refuse_if_set(json, "attention_bias", "biased projections are not implemented");
  if (const auto unturned = json.find("mla_use_nope"); unturned && !unturned->boolean()) {
    unturned->fail("latent attention with RoPE is not implemented here");
  }
  const auto scores = json.find("moe_router_activation_func");
  if (scores && scores->string() != "sigmoid") {
    scores->fail("'" + scores->string() + "' is not implemented; only 'sigmoid' is");
  }
  const auto block = json.find("linear_attn_config");
  for (const char* const field : {"use_full_rank_gate", "mla_use_output_gate", "attn_res_block_size",
                                  "routed_expert_hidden_size", "gate_lower_bound"}) {
    refuse_if_set(json, field, "is of another model of this type, which is not implemented");
    if (block) refuse_if_set(*block, field, "is of another model of this type, which is not implemented");
  }
  if (positive(json, "moe_layer_freq", 1) != 1) json.at("moe_layer_freq").fail("must be 1");
  const auto grouped = json.find("use_grouped_topk");
  if (grouped && !grouped->boolean() && positive(json, "num_expert_group", 1) != 1) {
    grouped->fail("must be true where experts are in groups");
  }
}

AttentionLayer read_attention(const Json& json) {
  AttentionLayer layer = read_latent_attention(json);
  layer.shape.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(query_width(layer))));
  layer.rope = AttentionLayer::no_rope;
  return layer;
}

/// In a block of their own, or as transformers has them.
RecurrentShape read_delta(const Json& json) {
  const auto block = json.find("linear_attn_config");
  const Json& from = block ? *block : json;
  RecurrentShape shape;
  const int heads = positive(from, block ? "num_heads" : "linear_num_heads");
  const int dim = positive(from, block ? "head_dim" : "linear_head_dim");
  const char* const taps = block ? "short_conv_kernel_size" : "linear_conv_kernel_dim";
  if (std::int64_t{heads} * dim > width_max) from.fail("makes all heads together larger than any real model's");
  shape.delta = {.key_heads = heads, .value_heads = heads, .key_dim = dim, .value_dim = dim, .channel_decays = true};
  shape.conv_width = static_cast<int>(from.at(taps).integer(2, taps_max));
  return shape;
}

/// Whether each layer has latent attention: by its number, from 1, or by layer_types.
std::vector<bool> read_kinds(const Json& json, int layers) {
  std::vector<bool> attends(static_cast<std::size_t>(layers), false);
  const auto types = json.find("layer_types");
  if (!types) {
    const Json block = json.at("linear_attn_config");
    std::vector<std::int64_t> listed = block.at("full_attn_layers").integers(1, layers);
    for (const std::int64_t number : listed) attends[static_cast<std::size_t>(number - 1)] = true;
    const std::vector<std::int64_t> others = block.at("kda_layers").integers(1, layers);
    listed.insert(listed.end(), others.begin(), others.end());
    std::ranges::sort(listed);
    if (listed.size() != attends.size() || std::ranges::adjacent_find(listed) != listed.end()) {
      block.fail("must list each of the " + std::to_string(layers) + " layers once, as full_attn_layers or kda_layers");
    }
    return attends;
  }
  if (!types->is_array() || types->size() != attends.size()) {
    types->fail("must list one type for each of the " + std::to_string(layers) + " layers");
  }
  for (std::size_t i = 0; i < attends.size(); ++i) {
    const Json type = (*types)[i];
    attends[i] = type.string() == "full_attention";
    if (!attends[i] && type.string() != "linear_attention") {
      type.fail("layer type '" + type.string() + "' is not part of this architecture");
    }
  }
  return attends;
}

TransformerConfig describe_model(const Json& json) {
  const Defaults defaults = {.context = positive(json, "model_max_length", 1 << 20), .epsilon = 1e-5};
  TransformerConfig config = read_sizes(json, defaults);
  refuse_variants(json);
  const AttentionLayer attention = read_attention(json);
  const RecurrentShape delta = read_delta(json);
  const std::vector<bool> attends = read_kinds(json, config.depth());
  for (std::size_t i = 0; i < attends.size(); ++i) {
    config.layers[i].intermediate = positive(json, "intermediate_size");
    if (attends[i]) config.layers[i].mixer = attention;
    else config.layers[i].mixer = delta;
  }
  Experts experts = read_experts(json, "moe_intermediate_size", {.chosen = router_fields.chosen});
  json.at("routed_scaling_factor");
  read_grouped_router(json, experts, router_fields);
  put_experts_by_type(json, experts, config);
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<KimiLinear>(from, config);
}

constexpr ArchitectureName names[] = {{"kimi_linear", "KimiLinearForCausalLM"}};

}  // namespace

const Architecture kimi_linear_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
