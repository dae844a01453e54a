// SPDX-License-Identifier: MIT
// Qwen1.5-MoE and Qwen2-MoE (Hugging Face `qwen2_moe`): Qwen2 with experts and a shared one, as Qwen3-MoE puts them.
// Source: transformers, models/qwen2_moe.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, {.epsilon = 1e-6});
  const auto bias = json.find("qkv_bias");
  for (LayerConfig& layer : config.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    if (attention.output_bias) json.at("attention_bias").fail("is not implemented; Qwen2 has biases of q, k and v");
    attention.qkv_bias = !bias || bias->boolean();
  }
  Experts experts = read_experts(json, "moe_intermediate_size");
  experts.shared = positive(json, "shared_expert_intermediate_size");
  experts.normalized = read_norm_topk_prob(json);
  put_sparse_experts(json, experts, config);
  return config;
}

constexpr ArchitectureName names[] = {{"qwen2_moe", "Qwen2MoeForCausalLM"}};

}  // namespace

const Architecture qwen2_moe_architecture = {.names = names, .describe = describe_model, .load = load_pre_norm_decoder};

}  // namespace draftproof
