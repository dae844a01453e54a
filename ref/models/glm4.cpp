// SPDX-License-Identifier: MIT
// GLM-4 of 2025 (Hugging Face `glm4`): norms before and behind attention and MLP, gate and up in one tensor, RoPE of
// neighboring values in the first part of a head. Source: transformers, models/glm4.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr DecoderNames tensors = {.attended_norm = "post_self_attn_layernorm", .mlp_out_norm = "post_mlp_layernorm"};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, {.epsilon = 1.5625e-7}, {.partial_rotary = true});
  set_window(json, AttentionCache::everything, config);
  const auto bias = json.find("attention_bias");
  for (LayerConfig& layer : config.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    attention.interleaved = true;
    attention.qkv_bias = !bias || bias->boolean();
    attention.output_bias = false;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_sandwich_decoder(from, config, tensors);
}

constexpr ArchitectureName names[] = {{"glm4", "Glm4ForCausalLM"}};

}  // namespace

const Architecture glm4_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
