// SPDX-License-Identifier: MIT
// Arcee's AFM (Hugging Face `arcee`): Llama whose MLPs have no gate, and the square of ReLU. Source: transformers,
// models/arcee.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, {.epsilon = 1e-5}, {.activation = "relu2"});
  set_window(json, AttentionCache::everything, config);
  config.activation = Activation::relu2;
  for (LayerConfig& layer : config.layers) layer.gated = false;
  return config;
}

constexpr ArchitectureName names[] = {{"arcee", "ArceeForCausalLM"}};

}  // namespace

const Architecture arcee_architecture = {.names = names, .describe = describe_model, .load = load_pre_norm_decoder};

}  // namespace draftproof
