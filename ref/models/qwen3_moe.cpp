// SPDX-License-Identifier: MIT
// Qwen3-MoE (Hugging Face `qwen3_moe`): Qwen3 whose MLPs are experts, in all layers but those that mlp_only_layers and
// decoder_sparse_step leave out. Without use_sliding_window no layer slides, with it all do. Source: transformers,
// models/qwen3_moe.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json);
  const auto use = json.find("use_sliding_window");
  const bool slides = use && use->boolean();
  if (slides && !json.find("sliding_window")) {
    use->fail("asks for sliding attention, but sliding_window is absent");
  }
  set_window(json, slides ? read_window(json) : AttentionCache::everything, config);

  set_qk_norm(QkNorm::heads, config);

  Experts experts = read_experts(json, "moe_intermediate_size");
  experts.normalized = read_norm_topk_prob(json);
  put_sparse_experts(json, experts, config);
  return config;
}

constexpr ArchitectureName names[] = {{"qwen3_moe", "Qwen3MoeForCausalLM"}};

}  // namespace

const Architecture qwen3_moe_architecture = {
    .names = names, .describe = describe_model, .load = load_pre_norm_decoder, .mtp = &pre_norm_blocks};

}  // namespace draftproof
