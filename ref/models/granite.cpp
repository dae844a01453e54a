// SPDX-License-Identifier: MIT
// Granite 3 and 4 without state space layers (Hugging Face `granite`, with experts `granitemoe`): Llama with four
// factors: of the embedding, of scores, of what attention and MLP add to the stream; and logits are divided by
// logits_scaling. The weights of the chosen experts are normalized. Source: transformers, models/granite and
// models/granitemoe.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-6};
constexpr Features features = {.multipliers = true};
constexpr DecoderNames tensors = {
    .experts_block = "block_sparse_moe.",
    .experts = {.router = "router.layer.weight", .experts = "", .down = "output_linear", .joined = "input_linear"}};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults, features);
  refuse_if_set(json, "logit_scale", "is not implemented; Granite has logits_scaling");
  config.embedding_scale = read_factor(json, "embedding_multiplier");
  config.residual_scale = read_factor(json, "residual_multiplier");
  config.logit_scale = 1 / read_factor(json, "logits_scaling");
  set_window(json, AttentionCache::everything, config);
  for (LayerConfig& layer : config.layers) {
    std::get<AttentionLayer>(layer.mixer).shape.scale = read_factor(json, "attention_multiplier");
  }
  if (json.at("model_type").string() != "granitemoe") return config;
  Experts experts = read_experts(json, "intermediate_size");
  experts.normalized = true;
  put_sparse_experts(json, experts, config);
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_pre_norm_decoder(from, config, tensors);
}

constexpr ArchitectureName names[] = {{"granite", "GraniteForCausalLM"}, {"granitemoe", "GraniteMoeForCausalLM"}};

}  // namespace

const Architecture granite_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
