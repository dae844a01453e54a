// SPDX-License-Identifier: MIT
// Falcon-H1. Its factors have no keys: they are in the weights.
#include <nlohmann/json.hpp>

#include "ref/formats/gguf/state_space.h"
#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

/// llama.cpp writes, and looks for, an ffn_norm without ".weight".
constexpr GgufName layer_names[] = {{"attn_norm", "input_layernorm"},
                                    {"attn_q", "self_attn.q_proj"},
                                    {"attn_k", "self_attn.k_proj"},
                                    {"attn_v", "self_attn.v_proj"},
                                    {"attn_output", "self_attn.o_proj"},
                                    {"ssm_in", "mamba.in_proj"},
                                    {"ssm_conv1d", "mamba.conv1d"},
                                    {"ssm_dt.bias", "mamba.dt_bias", false, true},
                                    {"ssm_a", "mamba.A_log", false, true},
                                    {"ssm_d", "mamba.D", false, true},
                                    {"ssm_norm", "mamba.norm"},
                                    {"ssm_out", "mamba.out_proj"},
                                    {"ffn_norm", "pre_ff_layernorm.weight", false, true},
                                    {"ffn_norm", "pre_ff_layernorm"},
                                    {"ffn_gate", "feed_forward.gate_proj"},
                                    {"ffn_up", "feed_forward.up_proj"},
                                    {"ffn_down", "feed_forward.down_proj"}};
constexpr GgufNames names = {.whole = final_layernorm_whole, .layer = layer_names};

constexpr GgufStateSpaceFields sizes = {.heads = "mamba_n_heads",
                                        .head_dim = "mamba_d_head",
                                        .groups = "mamba_n_groups",
                                        .state_size = "mamba_d_state",
                                        .conv_width = "mamba_d_conv",
                                        .expand = nullptr,
                                        .inner = "mamba_d_ssm"};
constexpr GgufField fields[] = {{"mamba_n_heads", "ssm.time_step_rank"}, {"mamba_d_head", "ssm.inner_size"},
                                {"mamba_d_ssm", "ssm.inner_size"},       {"mamba_n_groups", "ssm.group_count"},
                                {"mamba_d_state", "ssm.state_size"},     {"mamba_d_conv", "ssm.conv_kernel"}};

void put(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  put_state_space(keys, sizes, config);
  config["mamba_rms_norm"] = keys.has_tensor("blk.0.ssm_norm.weight");
  config["mamba_norm_before_gate"] = false;
}

Json read(const Gguf& file) {
  return read_gguf_target(file, {"falcon_h1", "FalconH1ForCausalLM", recurrence_keys, fields, put});
}

double number(const Json& config, const char* field) {
  const auto value = config.find(field);
  return value ? value->number() : 1;
}

void write(const GgufModel& model, GgufKeyWriter& keys) {
  const Json& config = model.config;
  const auto says = [&](const char* field, bool absent) {
    const auto value = config.find(field);
    return value ? value->boolean() : absent;
  };
  if (says("mamba_rms_norm", false) && says("mamba_norm_before_gate", true)) {
    config.find("mamba_norm_before_gate").value_or(config).fail("must be false in a GGUF of falcon-h1");
  }
  if (says("tie_word_embeddings", false) &&
      number(config, "embedding_multiplier") != number(config, "lm_head_multiplier")) {
    config.at("tie_word_embeddings").fail("must be false in a GGUF of falcon-h1 where its factors differ");
  }
  write_transformer(model, keys);
  write_recurrence(model, keys);
}

/// Of row `row` of what Mamba-2 projects: z, x, B, C, then the steps.
double projected_factor(const Json& config, std::int64_t row) {
  const auto size = [&](const char* field) { return config.at(field).integer(1, 1 << 24); };
  const std::int64_t inner = size("mamba_n_heads") * size("mamba_d_head");
  const std::int64_t keys = size("mamba_n_groups") * size("mamba_d_state");
  const std::int64_t parts[] = {inner, inner, keys, keys};
  std::size_t part = 0;
  while (part < std::size(parts) && row >= parts[part]) row -= parts[part++];
  const auto factors = config.find("ssm_multipliers");
  return number(config, "ssm_in_multiplier") * (factors ? (*factors)[part].number() : 1);
}

double factor(const Json& config, std::string_view name, std::int64_t row) {
  const auto of_mlp = config.find("mlp_multipliers");
  const auto is = [name](std::string_view other) { return name == other; };
  if (is("model.embed_tokens")) return number(config, "embedding_multiplier");
  if (is("lm_head")) return number(config, "lm_head_multiplier");
  if (is("feed_forward.gate_proj")) return of_mlp ? (*of_mlp)[0].number() : 1;
  if (is("feed_forward.down_proj")) return of_mlp ? (*of_mlp)[1].number() : 1;
  if (is("mamba.in_proj")) return projected_factor(config, row);
  if (is("mamba.out_proj")) return number(config, "ssm_out_multiplier");
  if (is("self_attn.o_proj")) return number(config, "attention_out_multiplier");
  if (!name.starts_with("self_attn.")) return 1;
  return number(config, "attention_in_multiplier") * (is("self_attn.k_proj") ? number(config, "key_multiplier") : 1);
}

constexpr const char* types[] = {"falcon_h1"};

}  // namespace

const GgufFamily gguf_falcon_h1 = {"falcon-h1", types, names, read, write, false, factor};

}  // namespace draftproof
