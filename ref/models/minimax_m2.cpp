// SPDX-License-Identifier: MIT
// MiniMax M2 (Hugging Face `minimax_m2`): experts in every layer, chosen by the sigmoids of their logits plus a bias;
// norms of q and k, all heads together, before RoPE of a part of a head. Source: transformers, models/minimax_m2.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-6};
constexpr DecoderNames tensors = {
    .experts_block = "block_sparse_moe.",
    .experts = {.choice_bias = "e_score_correction_bias", .gate = "w1", .up = "w3", .down = "w2"}};

/// Published configs state it as a width.
int rotary_width(const Json& json, int head_dim) {
  const auto width = json.find("rotary_dim");
  if (!width) return read_rotary_width(json, head_dim);
  const auto turned = static_cast<int>(width->integer(2, head_dim));
  if (turned % 2 != 0) width->fail("must be even; RoPE turns pairs");
  const auto rope = json.find("rope_parameters");
  const bool both = json.find("partial_rotary_factor") || (rope && rope->find("partial_rotary_factor"));
  if (both && read_rotary_width(json, head_dim) != turned) width->fail("differs from partial_rotary_factor");
  return turned;
}

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults, {.partial_rotary = true});
  require_rope_theta(json);
  refuse_if_set(json, "attention_bias", "is not implemented; MiniMax M2 has no biases");
  set_window(json, AttentionCache::everything, config);
  config.ropes = {read_rope(json, rotary_width(json, config.attention(0).shape.head_dim))};
  set_qk_norm(QkNorm::whole, config);
  Experts experts = read_experts(json, "intermediate_size");
  experts.scores = RouterScores::sigmoid;
  experts.choice_bias = true;
  experts.normalized = true;
  put_sparse_experts(json, experts, config);
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_pre_norm_decoder(from, config, tensors);
}

constexpr ArchitectureName names[] = {{"minimax_m2", "MiniMaxM2ForCausalLM"}};

}  // namespace

const Architecture minimax_m2_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
