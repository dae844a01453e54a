// SPDX-License-Identifier: MIT
// Qwen3.5, dense and with experts, and Qwen3-Next: layers of gated delta net and of gated attention.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr auto layer_names = joined({{"attn_norm", "input_layernorm"},
                                     {"post_attention_norm", "post_attention_layernorm"},
                                     {"attn_q", "self_attn.q_proj"},
                                     {"attn_k", "self_attn.k_proj"},
                                     {"attn_v", "self_attn.v_proj"},
                                     {"attn_output", "self_attn.o_proj"},
                                     {"attn_q_norm", "self_attn.q_norm"},
                                     {"attn_k_norm", "self_attn.k_norm"},
                                     {"attn_qkv", "linear_attn.in_proj_qkv"},
                                     {"attn_gate", "linear_attn.in_proj_z"},
                                     {"ssm_beta", "linear_attn.in_proj_b"},
                                     {"ssm_alpha", "linear_attn.in_proj_a"},
                                     {"ssm_ba", "linear_attn.in_proj_ba"},
                                     {"ssm_in", "linear_attn.in_proj_qkvz"},
                                     {"ssm_conv1d", "linear_attn.conv1d"},
                                     {"ssm_norm", "linear_attn.norm"},
                                     {"ssm_out", "linear_attn.out_proj"},
                                     {"ssm_a", "linear_attn.A_log", false, true},
                                     {"ssm_dt.bias", "linear_attn.dt_bias", false, true},
                                     {"ffn_gate", "mlp.gate_proj"},
                                     {"ffn_up", "mlp.up_proj"},
                                     {"ffn_down", "mlp.down_proj"},
                                     {"ffn_gate_inp", "mlp.gate"},
                                     {"ffn_gate_exps", "mlp.experts.gate_proj"},
                                     {"ffn_up_exps", "mlp.experts.up_proj"},
                                     {"ffn_down_exps", "mlp.experts.down_proj"},
                                     {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
                                     {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                     {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                     {"ffn_down_shexp", "mlp.shared_expert.down_proj"}},
                                    mtp_head_names);

constexpr std::string_view own_keys[] = {"full_attention_interval",
                                         "attention.recurrent_layers",
                                         "rope.dimension_sections",
                                         "ssm.conv_kernel",
                                         "ssm.state_size",
                                         "ssm.group_count",
                                         "ssm.time_step_rank",
                                         "ssm.inner_size",
                                         "expert_feed_forward_length",
                                         "expert_shared_feed_forward_length",
                                         "expert_weights_scale",
                                         "expert_weights_norm",
                                         "expert_gating_func"};

constexpr GgufField own_fields[] = {
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"full_attention_interval", "full_attention_interval"},
    {"linear_conv_kernel_dim", "ssm.conv_kernel"},
    {"linear_key_head_dim", "ssm.state_size"},
    {"linear_value_head_dim", "ssm.inner_size"},
    {"linear_num_key_heads", "ssm.group_count"},
    {"linear_num_value_heads", "ssm.time_step_rank"},
};

void put_hybrid(const GgufKeys& keys, ordered_json& config) {
  const auto layers = config["num_hidden_layers"].get<std::int64_t>();
  if (const auto recurrent = keys.find_integers("attention.recurrent_layers")) {
    if (static_cast<std::int64_t>(recurrent->size()) < layers) {
      keys.fail("attention.recurrent_layers", "has fewer values than there are layers");
    }
    for (std::int64_t i = 0; i < layers; ++i) {
      const bool recurs = (*recurrent)[static_cast<std::size_t>(i)] != 0;
      config["layer_types"].push_back(recurs ? "linear_attention" : "full_attention");
    }
  } else {
    config["full_attention_interval"] = keys.find_size("full_attention_interval").value_or(4);
  }
  const std::int64_t value_heads = keys.size("ssm.time_step_rank");
  const std::int64_t inner = keys.size("ssm.inner_size");
  if (inner % value_heads != 0) keys.fail("ssm.inner_size", "must be a multiple of ssm.time_step_rank");
  config["linear_conv_kernel_dim"] = keys.size("ssm.conv_kernel");
  config["linear_key_head_dim"] = keys.size("ssm.state_size");
  config["linear_value_head_dim"] = inner / value_heads;
  config["linear_num_key_heads"] = keys.size("ssm.group_count");
  config["linear_num_value_heads"] = value_heads;
}

void put_dense_hybrid(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  put_hybrid(keys, config);
}

void put_experts_hybrid(const GgufKeys& keys, ordered_json& config) {
  put_experts(keys, config);
  put_hybrid(keys, config);
  config["shared_expert_intermediate_size"] = keys.size("expert_shared_feed_forward_length");
}

Json read_dense(const Gguf& file) {
  return read_gguf_target(file, {"qwen3_5_text", "Qwen3_5ForCausalLM", own_keys, own_fields, put_dense_hybrid});
}

Json read_experts(const Gguf& file) {
  return read_gguf_target(file,
                          {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", own_keys, own_fields, put_experts_hybrid});
}

void put_next(const GgufKeys& keys, ordered_json& config) {
  put_experts_hybrid(keys, config);
  if (!config.contains("intermediate_size")) config["intermediate_size"] = config["moe_intermediate_size"];
}

Json read_next(const Gguf& file) {
  return read_gguf_target(file, {"qwen3_next", "Qwen3NextForCausalLM", own_keys, own_fields, put_next});
}

/// Which layers recur: all but every so many, or a list.
void write_kinds(const GgufModel& model, GgufKeyWriter& keys) {
  std::vector<bool> recurrent;
  for (const GgufModel::Layer& layer : model.layers) recurrent.push_back(!layer.attention);
  const auto first = std::ranges::find(recurrent, false);
  const auto interval = static_cast<std::int64_t>(first - recurrent.begin()) + 1;
  bool regular = true;
  for (std::size_t i = 0; i < recurrent.size(); ++i) {
    regular = regular && recurrent[i] == ((static_cast<std::int64_t>(i) + 1) % interval != 0);
  }
  recurrent.resize(recurrent.size() + static_cast<std::size_t>(model.mtp_heads), false);
  if (regular) keys.size("full_attention_interval", interval);
  else keys.truths("attention.recurrent_layers", recurrent);
}

void write_next(const GgufModel& model, GgufKeyWriter& keys) {
  write_plain_transformer(model, keys);
  if (!model.recurrence) return;
  write_recurrence(model, keys);
  write_kinds(model, keys);
}

void write(const GgufModel& model, GgufKeyWriter& keys) {
  write_next(model, keys);
  if (!model.recurrence) return;
  // M-RoPE: pair j has the position of time, height or width as j % 3 says, up to these counts; for a text all
  // three are one.
  const int half = model.ropes[0].turned / 2;
  keys.integers("rope.dimension_sections", {(half + 2) / 3, (half + 1) / 3, half / 3, 0});
}

constexpr const char* dense_types[] = {"qwen3_5", "qwen3_5_text"};
constexpr const char* experts_types[] = {"qwen3_5_moe", "qwen3_5_moe_text"};
constexpr const char* next_types[] = {"qwen3_next"};
constexpr GgufNames names = {.whole = transformer_whole, .layer = layer_names};

}  // namespace

const GgufFamily gguf_qwen35 = {"qwen35", dense_types, names, read_dense, write, true};
const GgufFamily gguf_qwen35_moe = {"qwen35moe", experts_types, names, read_experts, write, true};
const GgufFamily gguf_qwen3_next = {"qwen3next", next_types, names, read_next, write_next};

}  // namespace draftproof
