// SPDX-License-Identifier: MIT
// LFM2: layers of short convolutions, which have no KV heads, and of attention.
#include <nlohmann/json.hpp>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr GgufName whole_names[] = {
    {"token_embd", "model.embed_tokens"}, {"token_embd_norm", "model.embedding_norm"}, {"output", "lm_head"}};
constexpr GgufName layer_names[] = {{"attn_norm", "operator_norm"},
                                    {"attn_q", "self_attn.q_proj"},
                                    {"attn_k", "self_attn.k_proj"},
                                    {"attn_v", "self_attn.v_proj"},
                                    {"attn_output", "self_attn.out_proj"},
                                    {"attn_q_norm", "self_attn.q_layernorm"},
                                    {"attn_k_norm", "self_attn.k_layernorm"},
                                    {"shortconv.conv", "conv.conv"},
                                    {"shortconv.in_proj", "conv.in_proj"},
                                    {"shortconv.out_proj", "conv.out_proj"},
                                    {"ffn_norm", "ffn_norm"},
                                    {"ffn_gate", "feed_forward.w1"},
                                    {"ffn_up", "feed_forward.w3"},
                                    {"ffn_down", "feed_forward.w2"},
                                    {"ffn_gate_inp", "feed_forward.gate"},
                                    {"exp_probs_b.bias", "feed_forward.expert_bias", false, true},
                                    {"ffn_gate_exps", "feed_forward.experts.w1"},
                                    {"ffn_up_exps", "feed_forward.experts.w3"},
                                    {"ffn_down_exps", "feed_forward.experts.w2"}};
constexpr GgufNames names = {.whole = whole_names, .layer = layer_names};

constexpr std::string_view own_keys[] = {"shortconv.l_cache"};
constexpr GgufField own_fields[] = {{"norm_eps", "attention.layer_norm_rms_epsilon"},
                                    {"conv_L_cache", "shortconv.l_cache"},
                                    {"layer_types", "attention.head_count_kv"}};

void put_layers(const GgufKeys& keys, ordered_json& config) {
  config["norm_eps"] = config["rms_norm_eps"];
  config["conv_L_cache"] = keys.size("shortconv.l_cache");
  config["block_auto_adjust_ff_dim"] = false;
  for (const std::int64_t kv_heads : keys.attention_sizes("attention.head_count_kv")) {
    config["layer_types"].push_back(kv_heads > 0 ? "full_attention" : "conv");
  }
}

void put(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  put_layers(keys, config);
}

constexpr std::string_view moe_keys[] = {"shortconv.l_cache", "expert_feed_forward_length", "leading_dense_block_count",
                                         "expert_gating_func"};
constexpr GgufField moe_fields[] = {{"norm_eps", "attention.layer_norm_rms_epsilon"},
                                    {"conv_L_cache", "shortconv.l_cache"},
                                    {"layer_types", "attention.head_count_kv"},
                                    {"num_dense_layers", "leading_dense_block_count"}};

void put_moe(const GgufKeys& keys, ordered_json& config) {
  put_layers(keys, config);
  config["num_experts"] = keys.size("expert_count");
  config["num_experts_per_tok"] = keys.size("expert_used_count");
  config["moe_intermediate_size"] = keys.size("expert_feed_forward_length");
  config["num_dense_layers"] = keys.find_integer("leading_dense_block_count").value_or(0);
  if (keys.find_size("expert_gating_func").value_or(sigmoid_gating) != sigmoid_gating) {
    keys.fail("expert_gating_func", "is not implemented; only 2, the sigmoid, is");
  }
}

Json read_moe(const Gguf& file) {
  return read_gguf_target(file, {.model_type = "lfm2_moe",
                                 .class_name = "Lfm2MoeForCausalLM",
                                 .own_keys = moe_keys,
                                 .own_fields = moe_fields,
                                 .put = put_moe,
                                 .layers = GgufLayers::some_attend});
}

Json read(const Gguf& file) {
  return read_gguf_target(file, {.model_type = "lfm2",
                                 .class_name = "Lfm2ForCausalLM",
                                 .own_keys = own_keys,
                                 .own_fields = own_fields,
                                 .put = put,
                                 .layers = GgufLayers::some_attend});
}

void write(const GgufModel& model, GgufKeyWriter& keys) {
  write_transformer(model, keys, GgufLayers::some_attend);
  keys.size("shortconv.l_cache", model.config.at("conv_L_cache").integer(1, 1 << 24));
}

/// llama.cpp normalizes the weights of the chosen experts, and all of its files have a bias.
void write_moe(const GgufModel& model, GgufKeyWriter& keys) {
  const auto expects = [&](const char* field, bool right, const char* what) {
    if (!right) model.config.at(field).fail(what + (" in a GGUF of " + keys.architecture()));
  };
  const auto biased = model.config.find("use_expert_bias");
  const auto scale = model.config.find("routed_scaling_factor");
  expects("use_expert_bias", !biased || biased->boolean(), "must be true");
  expects("routed_scaling_factor", !scale || scale->number() == 1, "must be 1");
  expects("norm_topk_prob", model.layers.back().experts.normalized, "must be true");
  write(model, keys);
  std::int64_t dense = 0;
  while (model.layers[static_cast<std::size_t>(dense)].experts.count == 0) ++dense;
  if (dense > 0) write_experts(model.layers.back().experts, keys);
  keys.size("leading_dense_block_count", dense);
  keys.size("expert_gating_func", sigmoid_gating);
}

constexpr const char* types[] = {"lfm2"};
constexpr const char* moe_types[] = {"lfm2_moe"};

}  // namespace

const GgufFamily gguf_lfm2 = {"lfm2", types, names, read, write};
const GgufFamily gguf_lfm2_moe = {"lfm2moe", moe_types, names, read_moe, write_moe};

}  // namespace draftproof
