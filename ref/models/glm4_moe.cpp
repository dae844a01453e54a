// SPDX-License-Identifier: MIT
// GLM-4.5 and 4.6 (Hugging Face `glm4_moe`): the first layers have MLPs, the others experts, which a router like that
// of DeepSeek V3 chooses, and a shared one without a gate; RoPE of a part of a head. Source: transformers,
// models/glm4_moe.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-5};
constexpr DecoderNames tensors = {.experts = {.shared = "shared_experts."}};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults, {.partial_rotary = true});
  const auto rope = json.find("rope_parameters");
  if (!rope || !rope->find("partial_rotary_factor")) json.at("partial_rotary_factor");  // transformers' default is 0.5
  set_window(json, AttentionCache::everything, config);
  for (LayerConfig& layer : config.layers) std::get<AttentionLayer>(layer.mixer).output_bias = false;
  const auto norm = json.find("use_qk_norm");
  if (norm && norm->boolean()) set_qk_norm(QkNorm::heads, config);
  Experts experts = read_experts(json, "moe_intermediate_size", {.count = "n_routed_experts"});
  read_grouped_router(json, experts);
  put_experts_behind(json, experts, config);
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_pre_norm_decoder(from, config, tensors);
}

constexpr ArchitectureName names[] = {{"glm4_moe", "Glm4MoeForCausalLM"}};

}  // namespace

const Architecture glm4_moe_architecture = {
    .names = names, .describe = describe_model, .load = load, .mtp = &pre_norm_blocks};

}  // namespace draftproof
