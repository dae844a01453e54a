// SPDX-License-Identifier: MIT
// Mistral 7B and Nemo (Hugging Face `mistral`): Llama without biases, with a sliding window in every layer or in none.
// A sliding_window of null means none; one that is absent means 4096. GGUF files of these models are `llama`, without a
// window. Source: transformers, models/mistral.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr int default_window = 4096;  // transformers' MistralConfig

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json);
  json.at("num_key_value_heads");  // transformers' default, 8, is no other family's
  for (const char* field : {"attention_bias", "mlp_bias"}) {
    if (const auto bias = json.find(field); bias && bias->boolean()) bias->fail("is not implemented; Mistral has none");
  }
  set_window(json, json.has("sliding_window") ? read_window(json) : default_window, config);
  return config;
}

constexpr ArchitectureName names[] = {{"mistral", "MistralForCausalLM"}};

}  // namespace

const Architecture mistral_architecture = {
    .names = names, .describe = describe_model, .load = load_pre_norm_decoder, .mtp = &pre_norm_blocks};

}  // namespace draftproof
