// SPDX-License-Identifier: MIT
// Seed-OSS (Hugging Face `seed_oss`): Llama with biases of q, k and v, that of o in a field of its own. Source:
// transformers, models/seed_oss.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, {.kv_heads = 8, .head_dim = 128, .epsilon = 1e-6});
  set_window(json, AttentionCache::everything, config);
  const auto bias = json.find("attention_bias");
  const auto of_output = json.find("attention_out_bias");
  for (LayerConfig& layer : config.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    attention.qkv_bias = !bias || bias->boolean();
    attention.output_bias = of_output && of_output->boolean();
  }
  return config;
}

constexpr ArchitectureName names[] = {{"seed_oss", "SeedOssForCausalLM"}};

}  // namespace

const Architecture seed_oss_architecture = {.names = names, .describe = describe_model, .load = load_pre_norm_decoder};

}  // namespace draftproof
