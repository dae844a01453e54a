// SPDX-License-Identifier: MIT
// OLMoE (Hugging Face `olmoe`): Llama with experts in every layer, and q and k normalized, all heads together. Source:
// transformers, models/olmoe.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, {.epsilon = 1e-5});
  if (const auto clip = json.find("clip_qkv")) clip->fail("clipped q, k and v are not implemented");
  set_window(json, AttentionCache::everything, config);
  set_qk_norm(QkNorm::whole, config);
  Experts experts = read_experts(json, "intermediate_size");
  experts.normalized = read_norm_topk_prob(json);
  put_sparse_experts(json, experts, config);
  return config;
}

constexpr ArchitectureName names[] = {{"olmoe", "OlmoeForCausalLM"}};

}  // namespace

const Architecture olmoe_architecture = {.names = names, .describe = describe_model, .load = load_pre_norm_decoder};

}  // namespace draftproof
