// SPDX-License-Identifier: MIT
// StableLM 2 and 3B (Hugging Face `stablelm`): Llama whose norms subtract the mean and have biases, with RoPE of a part
// of a head; in some models attention and MLP read the same norm. Source: transformers, models/stablelm.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.kv_heads = 32, .epsilon = 1e-5, .epsilon_field = "layer_norm_eps"};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults, {.partial_rotary = true});
  refuse_if_set(json, "qk_layernorm", "norms of q and k are not implemented for StableLM");
  refuse_if_set(json, "attention_bias", "is not implemented; StableLM has use_qkv_bias");
  const auto block = json.find("rope_parameters");
  if (!json.find("partial_rotary_factor") && !(block && block->find("partial_rotary_factor"))) {
    json.at("partial_rotary_factor");  // transformers' default, 0.25, is that of no published model
  }
  config.norm = Norm::layer;
  set_window(json, AttentionCache::everything, config);
  const auto bias = json.find("use_qkv_bias");
  for (LayerConfig& layer : config.layers) {
    std::get<AttentionLayer>(layer.mixer).qkv_bias = bias && bias->boolean();
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  const auto parallel = from.weights.config().find("use_parallel_residual");
  if (parallel && parallel->boolean()) return load_parallel_decoder(from, config, {});
  return load_pre_norm_decoder(from, config);
}

constexpr ArchitectureName names[] = {{"stablelm", "StableLmForCausalLM"}};

}  // namespace

const Architecture stablelm_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
