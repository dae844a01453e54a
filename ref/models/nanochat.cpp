// SPDX-License-Identifier: MIT
// nanochat (Hugging Face `nanochat`): norms without weights, one of them of the embedding; RoPE turns the other way;
// MLPs of the square of ReLU without a gate; capped logits. It normalizes heads of q and k once they are turned, which
// is the same as before. Source: transformers, models/nanochat.
#include "ref/models/decoder.h"
#include "ref/models/gemma.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr float default_cap = 15;  // transformers' of NanoChatConfig
constexpr Defaults defaults = {.epsilon = 1e-6};
constexpr DecoderNames tensors = {.up = "mlp.fc1", .down = "mlp.fc2"};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_transformer_config(json, defaults, {.activation = "relu2"});
  refuse_if_set(json, "mlp_bias", "is not implemented; the MLPs of nanochat have no biases");
  config.norm = Norm::plain;
  config.embedding_norm = true;
  config.activation = Activation::relu2;
  config.logit_cap = read_cap(json, "final_logit_softcapping", default_cap);
  set_qk_norm(QkNorm::heads, config);
  set_window(json, AttentionCache::everything, config);
  // A factor would enter scores once they are normalized, and transformers' norms, behind RoPE, take it away again.
  if (config.ropes[0].factor != 1)
    json.fail("has RoPE of kind '" + config.ropes[0].kind + "', which is not implemented");
  for (float& frequency : config.ropes[0].frequencies) frequency = -frequency;
  for (LayerConfig& layer : config.layers) layer.gated = false;
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_pre_norm_decoder(from, config, tensors);
}

constexpr ArchitectureName names[] = {{"nanochat", "NanoChatForCausalLM"}};

}  // namespace

const Architecture nanochat_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
