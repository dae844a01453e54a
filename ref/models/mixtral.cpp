// SPDX-License-Identifier: MIT
// Mixtral (Hugging Face `mixtral`): Llama whose MLPs are experts, the weights of the chosen ones normalized; a window
// in every layer or in none. GGUF files of these models are `llama`. Source: transformers, models/mixtral.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-5};
constexpr DecoderNames tensors = {.experts_block = "block_sparse_moe.",
                                  .experts = {.gate = "w1", .up = "w3", .down = "w2"}};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults);
  refuse_if_set(json, "attention_bias", "is not implemented; Mixtral has no biases");
  set_window(json, read_window(json), config);
  Experts experts = read_experts(json, "intermediate_size");
  experts.normalized = true;
  put_sparse_experts(json, experts, config);
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  const bool published = from.weights.has("model.layers.0.block_sparse_moe.gate.weight");
  return load_pre_norm_decoder(from, config, published ? tensors : DecoderNames());
}

constexpr ArchitectureName names[] = {{"mixtral", "MixtralForCausalLM"}};

}  // namespace

const Architecture mixtral_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
