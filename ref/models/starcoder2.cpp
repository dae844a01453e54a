// SPDX-License-Identifier: MIT
// StarCoder 2 (Hugging Face `starcoder2`): norms that subtract the mean, MLPs without a gate, biases everywhere, a
// window in every layer or in none. Source: transformers, models/starcoder2.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.kv_heads = 2, .epsilon = 1e-5, .epsilon_field = "norm_epsilon"};
constexpr DecoderNames tensors = {.up = "mlp.c_fc", .down = "mlp.c_proj"};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults, {.activation = "gelu_pytorch_tanh"});
  for (const char* field : {"attention_bias", "mlp_bias"}) {
    refuse_if_set(json, field, "is not implemented; StarCoder 2 has use_bias");
  }
  config.norm = Norm::layer;
  config.activation = Activation::gelu;
  set_window(json, read_window(json), config);
  const auto bias = json.find("use_bias");
  for (LayerConfig& layer : config.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    attention.qkv_bias = attention.output_bias = layer.mlp_bias = !bias || bias->boolean();
    layer.gated = false;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_pre_norm_decoder(from, config, tensors);
}

constexpr ArchitectureName names[] = {{"starcoder2", "Starcoder2ForCausalLM"}};

}  // namespace

const Architecture starcoder2_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
