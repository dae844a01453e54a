// SPDX-License-Identifier: MIT
// Families whose routers choose experts by a bias: GLM-4 with experts, DeepSeek V2 (without one) and V3, MiniMax M2,
// ERNIE 4.5 with experts.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "ref/formats/gguf/mixtures.h"
#include "ref/formats/gguf/transformer.h"

namespace draftproof {

using nlohmann::ordered_json;

void put_sizes(const GgufKeys& keys, const char* count, const char* chosen, const char* size, ordered_json& config) {
  config[count] = keys.size("expert_count");
  config[chosen] = keys.size("expert_used_count");
  config[size] = keys.size("expert_feed_forward_length");
}

void require_gating(const GgufKeys& keys, std::int64_t scores) {
  if (keys.find_integer("expert_gating_func").value_or(scores) != scores) {
    keys.fail("expert_gating_func", scores == sigmoid_gating ? "must be 2, the sigmoid" : "must be 1, the softmax");
  }
}

void put_latent(const GgufKeys& keys, ordered_json& config) {
  const std::int64_t rank = keys.size("attention.kv_lora_rank");
  const std::int64_t turned = keys.size("rope.dimension_count");
  const bool apart = keys.find_size("attention.key_length_mla").has_value();
  const char* const key = apart ? "attention.key_length_mla" : "attention.key_length";
  if (keys.size(key) <= turned) keys.fail(key, "must be above rope.dimension_count");
  if (apart && keys.size("attention.key_length") - turned != rank) {
    keys.fail("attention.key_length", "must be kv_lora_rank and rope.dimension_count together");
  }
  if (const auto q_rank = keys.find_size("attention.q_lora_rank")) config["q_lora_rank"] = *q_rank;
  config["kv_lora_rank"] = rank;
  config["qk_rope_head_dim"] = turned;
  config["qk_nope_head_dim"] = keys.size(key) - turned;
  config["v_head_dim"] = keys.size(apart ? "attention.value_length_mla" : "attention.value_length");
  config["num_key_value_heads"] = config["num_attention_heads"];
  config["latent_norm_eps"] = config["rms_norm_eps"];
  config.erase("head_dim");
  config.erase("partial_rotary_factor");
  if (!config.contains("rope_scaling") || config["rope_scaling"]["rope_type"] != "yarn") return;
  ordered_json& yarn = config["rope_scaling"];
  if (const auto multiplier = keys.find_number("rope.scaling.yarn_log_multiplier"); multiplier && *multiplier != 0) {
    yarn["mscale"] = yarn["mscale_all_dim"] = 10 * *multiplier;
  } else {
    yarn["attention_factor"] = 1;
  }
}

const GgufModel::Experts& experts_of(const GgufModel& model, const GgufKeyWriter& keys) {
  const auto found = std::ranges::find_if(model.layers, [](const auto& layer) { return layer.experts.count > 0; });
  if (found == model.layers.end()) model.config.fail("needs a layer with experts in a GGUF of " + keys.architecture());
  return found->experts;
}

void require_layers(const GgufModel& model, const GgufKeyWriter& keys, const char* field,
                    const std::function<bool(std::int64_t layer)>& expected) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if ((model.layers[i].experts.count > 0) == expected(static_cast<std::int64_t>(i))) continue;
    model.config.find(field).value_or(model.config).fail("has no form in a GGUF of " + keys.architecture());
  }
}

std::int64_t write_leading_dense(const GgufModel& model, GgufKeyWriter& keys) {
  const auto first = std::ranges::find_if(model.layers, [](const auto& layer) { return layer.experts.count > 0; });
  const std::int64_t dense = first - model.layers.begin();
  require_layers(model, keys, "mlp_layer_types", [&](std::int64_t i) { return i >= dense; });
  keys.size("leading_dense_block_count", dense);
  return dense;
}

std::int64_t integer_or(const Json& config, const char* field, std::int64_t absent) {
  const auto value = config.find(field);
  return value ? value->integer(-1, 1 << 24) : absent;
}

void write_latent(const GgufModel& model, GgufKeyWriter& keys) {
  const Json& config = model.config;
  const auto size = [&](const char* field) { return config.at(field).integer(1, 1 << 24); };
  if (const std::int64_t rank = integer_or(config, "q_lora_rank", 0); rank > 0) {
    keys.size("attention.q_lora_rank", rank);
  }
  keys.size("attention.kv_lora_rank", size("kv_lora_rank"));
  keys.size("attention.key_length_mla", size("qk_nope_head_dim") + size("qk_rope_head_dim"));
  keys.size("attention.value_length_mla", size("v_head_dim"));
}

namespace {

/// MLPs, and experts beside shared ones.
constexpr auto shared_mixture = std::to_array<GgufName>({{"ffn_gate", "mlp.gate_proj"},
                                                         {"ffn_up", "mlp.up_proj"},
                                                         {"ffn_down", "mlp.down_proj"},
                                                         {"ffn_gate_inp", "mlp.gate"},
                                                         {"ffn_gate_exps", "mlp.experts.gate_proj"},
                                                         {"ffn_up_exps", "mlp.experts.up_proj"},
                                                         {"ffn_down_exps", "mlp.experts.down_proj"},
                                                         {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
                                                         {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
                                                         {"ffn_down_shexp", "mlp.shared_experts.down_proj"}});
/// The same with what GLM-4 and DeepSeek V3 have besides.
constexpr auto biased_mixture = joined({{"exp_probs_b.bias", "mlp.gate.e_score_correction_bias", false, true}},
                                       joined(mtp_head_names, shared_mixture));

// GLM-4 with experts.

constexpr auto glm4_moe_layer = joined({{"attn_norm", "input_layernorm"},
                                        {"attn_q", "self_attn.q_proj"},
                                        {"attn_k", "self_attn.k_proj"},
                                        {"attn_v", "self_attn.v_proj"},
                                        {"attn_output", "self_attn.o_proj"},
                                        {"attn_q_norm", "self_attn.q_norm"},
                                        {"attn_k_norm", "self_attn.k_norm"},
                                        {"post_attention_norm", "post_attention_layernorm"}},
                                       biased_mixture);
constexpr GgufNames glm4_moe_names = {.whole = transformer_whole, .layer = glm4_moe_layer};
constexpr std::string_view glm4_moe_keys[] = {
    "expert_feed_forward_length", "expert_shared_count", "expert_shared_feed_forward_length",
    "leading_dense_block_count",  "expert_gating_func",  "expert_weights_scale",
    "expert_weights_norm",        "expert_group_count",  "expert_group_used_count"};
constexpr GgufField glm4_moe_fields[] = {{"n_routed_experts", "expert_count"},
                                         {"n_shared_experts", "expert_shared_count"},
                                         {"first_k_dense_replace", "leading_dense_block_count"},
                                         {"routed_scaling_factor", "expert_weights_scale"}};

void put_glm4_moe(const GgufKeys& keys, ordered_json& config) {
  put_sizes(keys, "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", config);
  require_gating(keys, sigmoid_gating);
  config["n_shared_experts"] = keys.find_integer("expert_shared_count").value_or(0);
  config["first_k_dense_replace"] = keys.find_integer("leading_dense_block_count").value_or(0);
  config["norm_topk_prob"] = keys.find_boolean("expert_weights_norm").value_or(false);
  if (const auto scale = keys.find_number("expert_weights_scale"); scale && *scale != 0) {
    config["routed_scaling_factor"] = *scale;
  }
  require_one_group(keys);
  config["attention_bias"] = keys.has_tensor("blk.0.attn_q.bias");
  config["use_qk_norm"] = keys.has_tensor("blk.0.attn_q_norm.weight");
  if (!config.contains("partial_rotary_factor")) config["partial_rotary_factor"] = 1;
}

Json read_glm4_moe(const Gguf& file) {
  return read_gguf_target(file, {"glm4_moe", "Glm4MoeForCausalLM", glm4_moe_keys, glm4_moe_fields, put_glm4_moe});
}

void write_glm4_moe(const GgufModel& model, GgufKeyWriter& keys) {
  const Json& config = model.config;
  const GgufModel::Experts& experts = experts_of(model, keys);
  if (integer_or(config, "n_group", 1) != 1) config.at("n_group").fail("must be 1 in a GGUF of glm4moe");
  write_transformer(model, keys);
  if (model.layers[0].experts.count == 0) write_experts(experts, keys);
  keys.size("expert_shared_count", experts.shared / experts.intermediate);
  keys.size("leading_dense_block_count", integer_or(config, "first_k_dense_replace", 1));
  keys.size("expert_gating_func", sigmoid_gating);
  const auto scale = config.find("routed_scaling_factor");
  keys.number("expert_weights_scale", scale ? scale->number() : 1);
  keys.truth("expert_weights_norm", experts.normalized);
}

constexpr const char* glm4_moe_types[] = {"glm4_moe"};

// DeepSeek V2 and V3, Kimi K2, GLM-4.7-Flash. Newer files have the keys' and values' matrices of heads apart, the keys'
// transposed, and the lengths of what the cache holds; older ones have both matrices together and the lengths of heads.
// In llama.cpp the norms inside attention have the epsilon of the others, and groups are ranked by their two best
// experts, also where scores are those of a softmax.

constexpr auto deepseek2_layer = joined({{"attn_norm", "input_layernorm"},
                                         {"attn_q", "self_attn.q_proj"},
                                         {"attn_q_a", "self_attn.q_a_proj"},
                                         {"attn_q_a_norm", "self_attn.q_a_layernorm"},
                                         {"attn_q_b", "self_attn.q_b_proj"},
                                         {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
                                         {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
                                         {"attn_k_b", "self_attn.k_b_proj"},
                                         {"attn_v_b", "self_attn.v_b_proj"},
                                         {"attn_kv_b", "self_attn.kv_b_proj"},
                                         {"attn_output", "self_attn.o_proj"},
                                         {"ffn_norm", "post_attention_layernorm"}},
                                        biased_mixture);
constexpr GgufNames deepseek2_names = {.whole = transformer_whole, .layer = deepseek2_layer};
constexpr std::string_view deepseek2_keys[] = {"attention.q_lora_rank",
                                               "attention.kv_lora_rank",
                                               "attention.key_length_mla",
                                               "attention.value_length_mla",
                                               "expert_feed_forward_length",
                                               "expert_shared_count",
                                               "expert_shared_feed_forward_length",
                                               "expert_group_count",
                                               "expert_group_used_count",
                                               "leading_dense_block_count",
                                               "expert_gating_func",
                                               "expert_weights_scale",
                                               "expert_weights_norm"};
constexpr GgufField deepseek2_fields[] = {{"q_lora_rank", "attention.q_lora_rank"},
                                          {"kv_lora_rank", "attention.kv_lora_rank"},
                                          {"qk_rope_head_dim", "rope.dimension_count"},
                                          {"qk_nope_head_dim", "attention.key_length_mla"},
                                          {"v_head_dim", "attention.value_length_mla"},
                                          {"n_routed_experts", "expert_count"},
                                          {"n_shared_experts", "expert_shared_count"},
                                          {"n_group", "expert_group_count"},
                                          {"topk_group", "expert_group_used_count"},
                                          {"norm_topk_prob", "expert_weights_norm"},
                                          {"first_k_dense_replace", "leading_dense_block_count"},
                                          {"routed_scaling_factor", "expert_weights_scale"}};

void put_deepseek2(const GgufKeys& keys, ordered_json& config) {
  put_latent(keys, config);
  put_sizes(keys, "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", config);
  config["n_shared_experts"] = keys.find_integer("expert_shared_count").value_or(0);
  config["first_k_dense_replace"] = keys.find_integer("leading_dense_block_count").value_or(0);
  config["norm_topk_prob"] = keys.find_boolean("expert_weights_norm").value_or(false);
  const double scale = keys.find_number("expert_weights_scale").value_or(0);
  config["routed_scaling_factor"] = scale == 0 ? 1 : scale;
  config["n_group"] = keys.find_size("expert_group_count").value_or(1);
  config["topk_group"] = keys.find_size("expert_group_used_count").value_or(1);
  if (config["model_type"] == "deepseek_v2" && config["n_group"] != 1) {
    keys.fail("expert_group_count", "must be 1 where experts are chosen by a softmax");
  }
}

/// Files that do not say it have a sigmoid where they have a bias to choose experts by.
Json read_deepseek2(const Gguf& file) {
  const GgufKeys keys(file);
  const auto gating = keys.find_integer("expert_gating_func");
  bool biased = false;
  for (const auto& [name, tensor] : file.tensors()) biased |= name.ends_with(".exp_probs_b.bias");
  if (gating && *gating != softmax_gating && *gating != sigmoid_gating) {
    keys.fail("expert_gating_func", "must be 1, the softmax, or 2, the sigmoid");
  }
  const bool third = gating ? *gating == sigmoid_gating : biased;
  return read_gguf_target(
      file, {third ? "deepseek_v3" : "deepseek_v2", third ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM",
             deepseek2_keys, deepseek2_fields, put_deepseek2, GgufLayers::latent});
}

void write_deepseek2(const GgufModel& model, GgufKeyWriter& keys) {
  const Json& config = model.config;
  const GgufModel::Experts& experts = experts_of(model, keys);
  const bool third = config.at("model_type").string() != "deepseek_v2";
  const auto refuse = [&](const char* field, bool usual) {
    const auto said = config.find(field);
    if (said && said->boolean() != usual) {
      said->fail(std::string("must be ") + (usual ? "true" : "false") + " in a GGUF of " + keys.architecture());
    }
  };
  refuse("attention_bias", false);
  refuse("rope_interleave", true);
  const std::int64_t groups = integer_or(config, "n_group", 1);
  if (!third && groups != 1 && config.at("topk_method").string() != "greedy") {
    config.at("n_group").fail("must be 1 in a GGUF of deepseek2, where llama.cpp ranks groups otherwise");
  }
  write_transformer(model, keys, GgufLayers::latent);
  if (write_leading_dense(model, keys) > 0) write_experts(experts, keys);
  write_latent(model, keys);
  keys.size("expert_shared_count", experts.shared / experts.intermediate);
  keys.size("expert_gating_func", third ? sigmoid_gating : softmax_gating);
  if (third) keys.size("expert_group_count", groups);
  if (third) keys.size("expert_group_used_count", integer_or(config, "topk_group", 1));
  const auto scale = config.find("routed_scaling_factor");
  keys.number("expert_weights_scale", scale ? scale->number() : 1);
  if (experts.normalized) keys.truth("expert_weights_norm", true);
}

constexpr const char* deepseek2_types[] = {"deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite"};

// MiniMax M2.

constexpr GgufName minimax_m2_layer[] = {{"attn_norm", "input_layernorm"},
                                         {"attn_q", "self_attn.q_proj"},
                                         {"attn_k", "self_attn.k_proj"},
                                         {"attn_v", "self_attn.v_proj"},
                                         {"attn_output", "self_attn.o_proj"},
                                         {"attn_q_norm", "self_attn.q_norm"},
                                         {"attn_k_norm", "self_attn.k_norm"},
                                         {"ffn_norm", "post_attention_layernorm"},
                                         {"ffn_gate_inp", "block_sparse_moe.gate"},
                                         {"exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias", false, true},
                                         {"ffn_gate_exps", "block_sparse_moe.experts.w1"},
                                         {"ffn_up_exps", "block_sparse_moe.experts.w3"},
                                         {"ffn_down_exps", "block_sparse_moe.experts.w2"}};
constexpr GgufNames minimax_m2_names = {.whole = transformer_whole, .layer = minimax_m2_layer};
constexpr std::string_view minimax_m2_keys[] = {"expert_feed_forward_length", "expert_gating_func"};
constexpr GgufField minimax_m2_fields[] = {{"intermediate_size", "expert_feed_forward_length"}};

void put_minimax_m2(const GgufKeys& keys, ordered_json& config) {
  put_sizes(keys, "num_experts", "num_experts_per_tok", "intermediate_size", config);
  require_gating(keys, sigmoid_gating);
}

Json read_minimax_m2(const Gguf& file) {
  return read_gguf_target(file,
                          {"minimax_m2", "MiniMaxM2ForCausalLM", minimax_m2_keys, minimax_m2_fields, put_minimax_m2});
}

void write_minimax_m2(const GgufModel& model, GgufKeyWriter& keys) {
  write_plain_transformer(model, keys);
  keys.size("expert_gating_func", sigmoid_gating);
}

constexpr const char* minimax_m2_types[] = {"minimax_m2"};

// ERNIE 4.5 with experts: the order of rows is that of the folder.

constexpr auto ernie45_moe_layer =
    joined({{"attn_norm", "input_layernorm"},
            {"attn_q", "self_attn.q_proj"},
            {"attn_k", "self_attn.k_proj"},
            {"attn_v", "self_attn.v_proj"},
            {"attn_output", "self_attn.o_proj"},
            {"ffn_norm", "post_attention_layernorm"},
            {"exp_probs_b.bias", "mlp.moe_statics.e_score_correction_bias", false, true}},
           shared_mixture);
constexpr GgufNames ernie45_moe_names = {.whole = transformer_whole, .layer = ernie45_moe_layer};
constexpr std::string_view ernie45_moe_keys[] = {"expert_feed_forward_length",        "expert_shared_count",
                                                 "expert_shared_feed_forward_length", "interleave_moe_layer_step",
                                                 "leading_dense_block_count",         "expert_gating_func"};
constexpr GgufField ernie45_moe_fields[] = {{"moe_num_experts", "expert_count"},
                                            {"moe_k", "expert_used_count"},
                                            {"moe_num_shared_experts", "expert_shared_count"},
                                            {"moe_layer_start_index", "leading_dense_block_count"},
                                            {"moe_layer_interval", "interleave_moe_layer_step"}};

void put_ernie45_moe(const GgufKeys& keys, ordered_json& config) {
  put_sizes(keys, "moe_num_experts", "moe_k", "moe_intermediate_size", config);
  require_gating(keys, softmax_gating);
  const std::int64_t shared = keys.find_integer("expert_shared_count").value_or(0);
  const std::int64_t size = keys.size("expert_feed_forward_length");
  config["moe_num_shared_experts"] = shared;
  const auto whole = keys.find_size("expert_shared_feed_forward_length");
  if (shared > 0 && whole && (*whole % size != 0 || *whole / size != shared)) {
    keys.fail("expert_shared_feed_forward_length", "must be expert_shared_count times expert_feed_forward_length");
  }
  config["moe_layer_start_index"] = keys.find_integer("leading_dense_block_count").value_or(0);
  config["moe_layer_interval"] = keys.find_size("interleave_moe_layer_step").value_or(1);
}

Json read_ernie45_moe(const Gguf& file) {
  return read_gguf_target(
      file, {"ernie4_5_moe", "Ernie4_5_MoeForCausalLM", ernie45_moe_keys, ernie45_moe_fields, put_ernie45_moe});
}

void write_ernie45_moe(const GgufModel& model, GgufKeyWriter& keys) {
  const GgufModel::Experts& experts = experts_of(model, keys);
  const std::int64_t first = std::max<std::int64_t>(0, integer_or(model.config, "moe_layer_start_index", 1));
  const std::int64_t every = integer_or(model.config, "moe_layer_interval", 1);
  require_layers(model, keys, "moe_layer_end_index",
                 [&](std::int64_t i) { return i >= first && (i + 1) % every == 0; });
  write_transformer(model, keys);
  if (model.layers[0].experts.count == 0) write_experts(experts, keys);
  keys.size("expert_shared_count", experts.shared / experts.intermediate);
  keys.size("interleave_moe_layer_step", every);
  keys.size("leading_dense_block_count", first);
}

constexpr const char* ernie45_moe_types[] = {"ernie4_5_moe"};

}  // namespace

const GgufFamily gguf_glm4_moe = {"glm4moe", glm4_moe_types, glm4_moe_names, read_glm4_moe, write_glm4_moe};
const GgufFamily gguf_deepseek2 = {"deepseek2", deepseek2_types, deepseek2_names, read_deepseek2, write_deepseek2};
const GgufFamily gguf_minimax_m2 = {"minimax-m2", minimax_m2_types, minimax_m2_names, read_minimax_m2,
                                    write_minimax_m2};
const GgufFamily gguf_ernie45_moe = {"ernie4_5-moe", ernie45_moe_types, ernie45_moe_names, read_ernie45_moe,
                                     write_ernie45_moe};

}  // namespace draftproof
