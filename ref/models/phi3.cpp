// SPDX-License-Identifier: MIT
// Phi-3 and Phi-4, the text models (Hugging Face `phi3`): Llama with q, k and v in one tensor, gate and up in another,
// RoPE of a part of a head, a window in every layer or in none. Source: transformers, models/phi3.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-5};
constexpr Features features = {.partial_rotary = true};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults, features);
  refuse_if_set(json, "attention_bias", "is not implemented; Phi-3 has no biases");
  set_window(json, read_window(json), config);
  config.unused = {"rope_factors_"};  // of a GGUF; they are in its config
  return config;
}

constexpr ArchitectureName names[] = {{"phi3", "Phi3ForCausalLM"}};

}  // namespace

const Architecture phi3_architecture = {.names = names, .describe = describe_model, .load = load_pre_norm_decoder};

}  // namespace draftproof
