// SPDX-License-Identifier: MIT
// Nemotron-H, with and without experts. A layer with KV heads has attention, one with a width an MLP or experts, and
// one with neither recurs. The block of an MTP head has both.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "ref/formats/gguf/state_space.h"
#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr auto layer_names = joined({{"attn_q", "mixer.q_proj"},
                                     {"attn_k", "mixer.k_proj"},
                                     {"attn_v", "mixer.v_proj"},
                                     {"attn_output", "mixer.o_proj"},
                                     {"ffn_up", "mixer.up_proj"},
                                     {"ffn_down", "mixer.down_proj"},
                                     {"ffn_gate_inp", "mixer.gate"},
                                     {"exp_probs_b.bias", "mixer.gate.e_score_correction_bias", false, true},
                                     {"ffn_up_exps", "mixer.experts.up_proj"},
                                     {"ffn_down_exps", "mixer.experts.down_proj"},
                                     {"ffn_up_shexp", "mixer.shared_experts.up_proj"},
                                     {"ffn_down_shexp", "mixer.shared_experts.down_proj"},
                                     {"ffn_latent_down", "mixer.fc1_latent_proj"},
                                     {"ffn_latent_up", "mixer.fc2_latent_proj"},
                                     {"post_attention_norm", "post_attention_layernorm"}},  // of an MTP head
                                    joined(mtp_head_names, mamba2_layer));
constexpr GgufNames names = {.whole = mamba2_whole, .layer = layer_names};

constexpr GgufStateSpaceFields sizes = {.heads = "mamba_num_heads",
                                        .head_dim = "mamba_head_dim",
                                        .groups = "n_groups",
                                        .state_size = "ssm_state_size",
                                        .conv_width = "conv_kernel",
                                        .expand = nullptr};
constexpr GgufField fields[] = {{"layer_norm_epsilon", "attention.layer_norm_rms_epsilon"},
                                {"layers_block_type", "attention.head_count_kv"},
                                {"mamba_num_heads", "ssm.time_step_rank"},
                                {"mamba_head_dim", "ssm.inner_size"},
                                {"n_groups", "ssm.group_count"},
                                {"ssm_state_size", "ssm.state_size"},
                                {"conv_kernel", "ssm.conv_kernel"},
                                {"n_routed_experts", "expert_count"},
                                {"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
                                {"moe_latent_size", "moe_latent_size"},
                                {"routed_scaling_factor", "expert_weights_scale"}};
/// llama.cpp wants both epsilons, and reads one.
constexpr std::string_view own_keys[] = {
    "attention.layer_norm_epsilon", "ssm.conv_kernel", "ssm.state_size", "ssm.group_count",
    "ssm.time_step_rank",           "ssm.inner_size"};
constexpr std::string_view moe_keys[] = {"attention.layer_norm_epsilon",
                                         "ssm.conv_kernel",
                                         "ssm.state_size",
                                         "ssm.group_count",
                                         "ssm.time_step_rank",
                                         "ssm.inner_size",
                                         "expert_group_count",
                                         "expert_group_used_count",
                                         "expert_shared_count",
                                         "expert_weights_norm",
                                         "expert_weights_scale",
                                         "expert_gating_func",
                                         "expert_feed_forward_length",
                                         "expert_shared_feed_forward_length",
                                         "moe_latent_size"};

/// `mlp`: what layers with a width are.
void put_layers(const GgufKeys& keys, const char* mlp, ordered_json& config) {
  const std::vector<std::int64_t> kv_heads = keys.attention_sizes("attention.head_count_kv");
  const std::vector<std::int64_t> widths = keys.attention_sizes("feed_forward_length");
  const auto layers = config["num_hidden_layers"].get<std::size_t>();
  for (std::size_t i = 0; i < layers; ++i) {
    if (kv_heads[i] > 0 && widths[i] > 0) {
      keys.fail("feed_forward_length", "must be 0 for layers with attention; others are not implemented");
    }
    config["layers_block_type"].push_back(kv_heads[i] > 0 ? "full_attention"
                                          : widths[i] > 0 ? mlp
                                                          : "linear_attention");
  }
  config["layer_norm_epsilon"] = keys.number("attention.layer_norm_rms_epsilon");
  config["mlp_hidden_act"] = "relu2";
  put_state_space(keys, sizes, config);
}

void put(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  put_layers(keys, "mlp", config);
}

void put_moe(const GgufKeys& keys, ordered_json& config) {
  put_layers(keys, "moe", config);
  config["n_routed_experts"] = keys.size("expert_count");
  config["num_experts_per_tok"] = keys.size("expert_used_count");
  config["moe_intermediate_size"] = keys.size("expert_feed_forward_length");
  config["moe_shared_expert_intermediate_size"] = keys.size("expert_shared_feed_forward_length");
  if (const auto latent = keys.find_size("moe_latent_size"); latent && *latent > 0) config["moe_latent_size"] = *latent;
  config["norm_topk_prob"] = keys.find_boolean("expert_weights_norm").value_or(false);
  if (const auto scale = keys.find_number("expert_weights_scale"); scale && *scale != 0) {
    config["routed_scaling_factor"] = *scale;
  }
  if (keys.find_integer("expert_gating_func").value_or(sigmoid_gating) != sigmoid_gating) {
    keys.fail("expert_gating_func", "must be 2, the sigmoid");
  }
  require_one_group(keys);
}

Json read(const Gguf& file) {
  return read_gguf_target(file, {"nemotron_h", "NemotronHForCausalLM", own_keys, fields, put, GgufLayers::parts});
}

Json read_moe(const Gguf& file) {
  return read_gguf_target(file, {"nemotron_h", "NemotronHForCausalLM", moe_keys, fields, put_moe, GgufLayers::parts});
}

/// llama.cpp takes layers of one kind for another where a model has none with attention or none with a width.
void write(const GgufModel& model, GgufKeyWriter& keys) {
  const auto some = [&](const auto& kind) { return std::ranges::any_of(model.layers, kind); };
  if (!some([](const auto& layer) { return layer.attention.has_value(); }) ||
      !some([](const auto& layer) { return layer.intermediate > 0 || layer.experts.count > 0; }) || !model.recurrence) {
    model.config.fail("needs layers of all three kinds in a GGUF of " + keys.architecture());
  }
  write_transformer(model, keys, GgufLayers::parts);
  keys.number("attention.layer_norm_epsilon", model.epsilon);
  keys.truth("rope.scaling.finetuned", false);
  write_recurrence(model, keys);
}

void write_moe(const GgufModel& model, GgufKeyWriter& keys) {
  const Json& config = model.config;
  const auto found = std::ranges::find_if(model.layers, [](const auto& layer) { return layer.experts.count > 0; });
  if (std::ranges::any_of(model.layers, [](const auto& layer) { return layer.intermediate > 0; })) {
    config.fail("has layers with and without experts, which have no form in a GGUF of " + keys.architecture());
  }
  const auto groups = config.find("n_group");
  if (groups && groups->integer(1, 1 << 16) != 1) groups->fail("must be 1 in a GGUF of " + keys.architecture());
  write(model, keys);
  if (model.layers[0].experts.count == 0) write_experts(found->experts, keys);
  const auto scale = config.find("routed_scaling_factor");
  if (const auto latent = config.find("moe_latent_size")) keys.size("moe_latent_size", latent->integer(1, 1 << 24));
  keys.size("expert_shared_count", 1);
  keys.truth("expert_weights_norm", found->experts.normalized);
  keys.number("expert_weights_scale", scale ? scale->number() : 1);
  keys.size("expert_group_count", 1);
}

bool has_experts(const Json& config) {
  if (const auto pattern = config.find("hybrid_override_pattern")) {
    return pattern->string().find('E') != std::string::npos;
  }
  const Json types = config.at("layers_block_type");
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].string() == "moe") return true;
  }
  return false;
}

bool has_none(const Json& config) { return !has_experts(config); }

constexpr const char* types[] = {"nemotron_h"};

}  // namespace

const GgufFamily gguf_nemotron_h = {"nemotron_h", types, names, read, write, false, nullptr, has_none};
const GgufFamily gguf_nemotron_h_moe = {"nemotron_h_moe", types, names,   read_moe,
                                        write_moe,        false, nullptr, has_experts};

}  // namespace draftproof
