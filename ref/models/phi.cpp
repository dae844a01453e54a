// SPDX-License-Identifier: MIT
// Phi-1, 1.5 and 2 (Hugging Face `phi`): attention and MLP read the same norm, which subtracts the mean; RoPE of a part
// of a head, MLPs without a gate, biases everywhere, of the logits too. Source: transformers, models/phi.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-5, .epsilon_field = "layer_norm_eps"};
constexpr Features features = {.activation = "gelu_new", .partial_rotary = true};
constexpr DecoderNames tensors = {
    .output = "dense", .up = "mlp.fc1", .down = "mlp.fc2", .final_norm = "model.final_layernorm.weight"};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults, features);
  refuse_if_set(json, "qk_layernorm", "norms of q and k are not implemented for Phi");
  for (const char* field : {"attention_bias", "mlp_bias"}) {
    refuse_if_set(json, field, "is not implemented; Phi has biases everywhere");
  }
  const auto block = json.find("rope_parameters");
  if (!json.find("partial_rotary_factor") && !(block && block->find("partial_rotary_factor"))) {
    json.at("partial_rotary_factor");  // transformers' default, 0.5, is not that of Phi-2
  }
  config.norm = Norm::layer;
  config.activation = Activation::gelu;
  config.head_bias = true;
  set_window(json, AttentionCache::everything, config);
  for (LayerConfig& layer : config.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    attention.qkv_bias = attention.output_bias = layer.mlp_bias = true;
    layer.gated = false;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_parallel_decoder(from, config, tensors);
}

constexpr ArchitectureName names[] = {{"phi", "PhiForCausalLM"}};

}  // namespace

const Architecture phi_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
