// SPDX-License-Identifier: MIT
// ERNIE 4.5, dense (Hugging Face `ernie4_5`): Llama whose RoPE turns neighboring values; use_bias is for all
// projections. Source: transformers, models/ernie4_5.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, {.kv_heads = 2, .head_dim = 128, .epsilon = 1e-5});
  require_rope_theta(json);
  refuse_if_set(json, "attention_bias", "is not implemented; ERNIE 4.5 has use_bias");
  refuse_if_set(json, "mlp_bias", "is not implemented; ERNIE 4.5 has use_bias");
  set_window(json, AttentionCache::everything, config);
  const auto bias = json.find("use_bias");
  for (LayerConfig& layer : config.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    attention.interleaved = true;
    attention.qkv_bias = attention.output_bias = layer.mlp_bias = bias && bias->boolean();
  }
  return config;
}

constexpr ArchitectureName names[] = {{"ernie4_5", "Ernie4_5ForCausalLM"}};

}  // namespace

const Architecture ernie45_architecture = {.names = names, .describe = describe_model, .load = load_pre_norm_decoder};

}  // namespace draftproof
