// SPDX-License-Identifier: MIT
// Jamba. Layers without attention have no KV heads; which layers have experts, only their tensors say.
#include <nlohmann/json.hpp>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr GgufName layer_names[] = {{"attn_norm", "input_layernorm"},
                                    {"attn_q", "self_attn.q_proj"},
                                    {"attn_k", "self_attn.k_proj"},
                                    {"attn_v", "self_attn.v_proj"},
                                    {"attn_output", "self_attn.o_proj"},
                                    {"ssm_in", "mamba.in_proj"},
                                    {"ssm_conv1d", "mamba.conv1d"},
                                    {"ssm_x", "mamba.x_proj"},
                                    {"ssm_dt", "mamba.dt_proj"},
                                    {"ssm_dt_norm", "mamba.dt_layernorm"},
                                    {"ssm_b_norm", "mamba.b_layernorm"},
                                    {"ssm_c_norm", "mamba.c_layernorm"},
                                    {"ssm_a", "mamba.A_log", false, true},
                                    {"ssm_d", "mamba.D", false, true},
                                    {"ssm_out", "mamba.out_proj"},
                                    {"ffn_norm", "pre_ff_layernorm"},
                                    {"ffn_gate", "feed_forward.gate_proj"},
                                    {"ffn_up", "feed_forward.up_proj"},
                                    {"ffn_down", "feed_forward.down_proj"},
                                    {"ffn_gate_inp", "feed_forward.router"},
                                    {"ffn_gate_exps", "feed_forward.experts.gate_proj"},
                                    {"ffn_up_exps", "feed_forward.experts.up_proj"},
                                    {"ffn_down_exps", "feed_forward.experts.down_proj"}};
constexpr GgufNames names = {.whole = final_layernorm_whole, .layer = layer_names};

constexpr std::string_view own_keys[] = {"ssm.conv_kernel", "ssm.state_size", "ssm.time_step_rank", "ssm.inner_size"};
constexpr GgufField own_fields[] = {{"attn_layer_period", "attention.head_count_kv"},
                                    {"attn_layer_offset", "attention.head_count_kv"},
                                    {"mamba_expand", "ssm.inner_size"},
                                    {"mamba_d_state", "ssm.state_size"},
                                    {"mamba_d_conv", "ssm.conv_kernel"},
                                    {"mamba_dt_rank", "ssm.time_step_rank"}};

/// Adds how many layers there are from one of these to the next, and the first one. Throws Error when they are not
/// evenly spaced.
void put_every(const GgufKeys& keys, const char* key, const std::vector<bool>& chosen, const char* period,
               const char* offset, ordered_json& config) {
  const auto size = static_cast<std::int64_t>(chosen.size());
  std::int64_t first = 0;
  while (first < size && !chosen[static_cast<std::size_t>(first)]) ++first;
  std::int64_t every = first + 1;
  while (first + every < size && !chosen[static_cast<std::size_t>(first + every)]) ++every;
  for (std::int64_t i = 0; i < size; ++i) {
    if (chosen[static_cast<std::size_t>(i)] != (i % every == first)) {
      keys.fail(key, "names layers that are not evenly spaced, which is not implemented");
    }
  }
  config[period] = every;
  config[offset] = first;
}

void put(const GgufKeys& keys, ordered_json& config) {
  const std::int64_t inner = keys.size("ssm.inner_size");
  const std::int64_t hidden = keys.size("embedding_length");
  if (inner % hidden != 0) keys.fail("ssm.inner_size", "must be a multiple of embedding_length");
  config["mamba_expand"] = inner / hidden;
  config["mamba_d_state"] = keys.size("ssm.state_size");
  config["mamba_d_conv"] = keys.size("ssm.conv_kernel");
  config["mamba_dt_rank"] = keys.size("ssm.time_step_rank");
  config["num_experts"] = keys.find_size("expert_count").value_or(1);
  config["num_experts_per_tok"] = keys.find_size("expert_used_count").value_or(1);
  std::vector<bool> attends;
  std::vector<bool> mixes;
  for (const std::int64_t kv_heads : keys.attention_sizes("attention.head_count_kv")) {
    mixes.push_back(keys.has_tensor("blk." + std::to_string(attends.size()) + ".ffn_gate_inp.weight"));
    attends.push_back(kv_heads > 0);
  }
  put_every(keys, "attention.head_count_kv", attends, "attn_layer_period", "attn_layer_offset", config);
  put_every(keys, "expert_count", mixes, "expert_layer_period", "expert_layer_offset", config);
}

Json read(const Gguf& file) {
  return read_gguf_target(file, {"jamba", "JambaForCausalLM", own_keys, own_fields, put, GgufLayers::some_attend});
}

void write(const GgufModel& model, GgufKeyWriter& keys) {
  if (!model.recurrence) model.config.at("attn_layer_period").fail("must leave layers of Mamba in a GGUF of jamba");
  GgufModel dense = model;  // every layer has the one width
  for (GgufModel::Layer& layer : dense.layers) layer.experts = {};
  write_transformer(dense, keys, GgufLayers::some_attend);
  const auto size = [&](const char* field) { return model.config.at(field).integer(1, 1 << 24); };
  keys.size("ssm.conv_kernel", model.recurrence->conv_width);
  keys.size("ssm.state_size", model.recurrence->key_dim);
  keys.size("ssm.time_step_rank", model.recurrence->key_heads);
  keys.size("ssm.inner_size", model.recurrence->inner);
  keys.size("expert_count", size("num_experts"));
  keys.size("expert_used_count", size("num_experts_per_tok"));
}

constexpr const char* types[] = {"jamba"};

}  // namespace

const GgufFamily gguf_jamba = {"jamba", types, names, read, write};

}  // namespace draftproof
