// SPDX-License-Identifier: MIT
// Kimi Linear. In llama.cpp the norms inside latent attention have the epsilon of the others, both kinds of layers have
// as many heads, and the weights of the chosen experts add up to 1.
#include <nlohmann/json.hpp>

#include "ref/formats/gguf/mixtures.h"
#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

/// transformers saves the MLP of the first layers as if it were of experts.
constexpr GgufName layer_names[] = {{"attn_norm", "input_layernorm"},
                                    {"attn_q", "self_attn.q_proj"},
                                    {"attn_k", "self_attn.k_proj"},
                                    {"attn_v", "self_attn.v_proj"},
                                    {"attn_output", "self_attn.o_proj"},
                                    {"ssm_conv1d_q", "self_attn.q_conv1d"},
                                    {"ssm_conv1d_k", "self_attn.k_conv1d"},
                                    {"ssm_conv1d_v", "self_attn.v_conv1d"},
                                    {"ssm_f_a", "self_attn.f_a_proj"},
                                    {"ssm_f_b", "self_attn.f_b_proj"},
                                    {"ssm_beta", "self_attn.b_proj"},
                                    {"ssm_a", "self_attn.A_log", false, true},
                                    {"ssm_dt.bias", "self_attn.dt_bias", false, true},
                                    {"ssm_g_a", "self_attn.g_a_proj"},
                                    {"ssm_g_b", "self_attn.g_b_proj"},
                                    {"ssm_norm", "self_attn.o_norm"},
                                    {"attn_q_a", "self_attn.q_a_proj"},
                                    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
                                    {"attn_q_b", "self_attn.q_b_proj"},
                                    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
                                    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
                                    {"attn_k_b", "self_attn.k_b_proj"},
                                    {"attn_v_b", "self_attn.v_b_proj"},
                                    {"attn_kv_b", "self_attn.kv_b_proj"},
                                    {"ffn_norm", "post_attention_layernorm"},
                                    {"ffn_gate", "mlp.gate_proj"},
                                    {"ffn_up", "mlp.up_proj"},
                                    {"ffn_down", "mlp.down_proj"},
                                    {"ffn_gate", "block_sparse_moe.gate_proj"},
                                    {"ffn_up", "block_sparse_moe.up_proj"},
                                    {"ffn_down", "block_sparse_moe.down_proj"},
                                    {"ffn_gate_inp", "block_sparse_moe.gate"},
                                    {"exp_probs_b.bias", "block_sparse_moe.gate.e_score_correction_bias", false, true},
                                    {"ffn_gate_exps", "block_sparse_moe.experts.w1"},
                                    {"ffn_up_exps", "block_sparse_moe.experts.w3"},
                                    {"ffn_down_exps", "block_sparse_moe.experts.w2"},
                                    {"ffn_gate_shexp", "block_sparse_moe.shared_experts.gate_proj"},
                                    {"ffn_up_shexp", "block_sparse_moe.shared_experts.up_proj"},
                                    {"ffn_down_shexp", "block_sparse_moe.shared_experts.down_proj"}};
constexpr GgufNames names = {.whole = transformer_whole, .layer = layer_names};

constexpr std::string_view own_keys[] = {
    "attention.q_lora_rank",      "attention.kv_lora_rank",  "attention.key_length_mla",
    "attention.value_length_mla", "ssm.conv_kernel",         "kda.head_dim",
    "expert_feed_forward_length", "expert_shared_count",     "expert_shared_feed_forward_length",
    "expert_group_count",         "expert_group_used_count", "leading_dense_block_count",
    "expert_gating_func",         "expert_weights_scale",    "expert_weights_norm"};
constexpr GgufField own_fields[] = {
    {"q_lora_rank", "attention.q_lora_rank"},         {"kv_lora_rank", "attention.kv_lora_rank"},
    {"qk_rope_head_dim", "rope.dimension_count"},     {"qk_nope_head_dim", "attention.key_length_mla"},
    {"v_head_dim", "attention.value_length_mla"},     {"linear_attn_config.short_conv_kernel_size", "ssm.conv_kernel"},
    {"linear_attn_config.head_dim", "kda.head_dim"},  {"num_experts_per_token", "expert_used_count"},
    {"num_shared_experts", "expert_shared_count"},    {"num_expert_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},        {"first_k_dense_replace", "leading_dense_block_count"},
    {"routed_scaling_factor", "expert_weights_scale"}};

void put(const GgufKeys& keys, ordered_json& config) {
  put_latent(keys, config);
  put_sizes(keys, "num_experts", "num_experts_per_token", "moe_intermediate_size", config);
  require_gating(keys, sigmoid_gating);
  if (!keys.find_boolean("expert_weights_norm").value_or(true)) {
    keys.fail("expert_weights_norm", "must be true, as llama.cpp has it");
  }
  config["num_shared_experts"] = keys.find_integer("expert_shared_count").value_or(0);
  config["num_expert_group"] = keys.find_size("expert_group_count").value_or(1);
  config["topk_group"] = keys.find_size("expert_group_used_count").value_or(1);
  config["first_k_dense_replace"] = keys.find_integer("leading_dense_block_count").value_or(0);
  const double scale = keys.find_number("expert_weights_scale").value_or(0);
  config["routed_scaling_factor"] = scale == 0 ? 1 : scale;
  ordered_json& delta = config["linear_attn_config"] = {{"num_heads", config["num_attention_heads"]},
                                                        {"head_dim", keys.size("kda.head_dim")},
                                                        {"short_conv_kernel_size", keys.size("ssm.conv_kernel")},
                                                        {"full_attn_layers", ordered_json::array()},
                                                        {"kda_layers", ordered_json::array()}};
  int number = 0;  // of a layer, from 1
  for (const std::int64_t kv_heads : keys.attention_sizes("attention.head_count_kv")) {
    delta[kv_heads > 0 ? "full_attn_layers" : "kda_layers"].push_back(++number);
  }
}

Json read(const Gguf& file) {
  return read_gguf_target(file,
                          {"kimi_linear", "KimiLinearForCausalLM", own_keys, own_fields, put, GgufLayers::some_attend});
}

void write(const GgufModel& model, GgufKeyWriter& keys) {
  const Json& config = model.config;
  const GgufModel::Experts& experts = experts_of(model, keys);
  if (!experts.normalized) config.at("moe_renormalize").fail("must be true in a GGUF of kimi-linear");
  write_transformer(model, keys, GgufLayers::some_attend);
  if (write_leading_dense(model, keys) > 0) write_experts(experts, keys);
  write_latent(model, keys);
  keys.size("rope.dimension_count", config.at("qk_rope_head_dim").integer(1, 1 << 24));
  if (model.recurrence) {
    if (model.recurrence->value_heads != config.at("num_attention_heads").integer(1, 1 << 24)) {
      config.at("num_attention_heads").fail("must be that of the other layers, too, in a GGUF of kimi-linear");
    }
    keys.size("ssm.conv_kernel", model.recurrence->conv_width);
    keys.size("kda.head_dim", model.recurrence->key_dim);
  }
  keys.size("expert_shared_count", experts.shared / experts.intermediate);
  keys.size("expert_group_count", integer_or(config, "num_expert_group", 1));
  keys.size("expert_group_used_count", integer_or(config, "topk_group", 1));
  keys.size("expert_gating_func", sigmoid_gating);
  keys.number("expert_weights_scale", config.at("routed_scaling_factor").number());
  keys.truth("expert_weights_norm", true);
}

constexpr const char* types[] = {"kimi_linear"};

}  // namespace

const GgufFamily gguf_kimi_linear = {"kimi-linear", types, names, read, write};

}  // namespace draftproof
