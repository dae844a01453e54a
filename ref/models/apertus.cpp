// SPDX-License-Identifier: MIT
// Apertus (Hugging Face `apertus`): Llama with norms of q and k, and MLPs without a gate whose activation, xIELU, has
// numbers of each layer. Source: transformers, models/apertus.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-5};
constexpr DecoderNames tensors = {.attention_norm = "attention_layernorm", .mlp_norm = "feedforward_layernorm"};

TransformerConfig describe_model(const Json& json) {
  require_rope_theta(json);  // else transformers stretches RoPE as it does for no other class
  TransformerConfig config = read_target_config(json, defaults, {.activation = "xielu"});
  refuse_if_set(json, "mlp_bias", "is not implemented; the MLPs of Apertus have no biases");
  config.activation = Activation::xielu;
  set_qk_norm(QkNorm::heads, config);
  set_window(json, AttentionCache::everything, config);
  for (LayerConfig& layer : config.layers) layer.gated = false;
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_pre_norm_decoder(from, config, tensors);
}

constexpr ArchitectureName names[] = {{"apertus", "ApertusForCausalLM"}};

}  // namespace

const Architecture apertus_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
