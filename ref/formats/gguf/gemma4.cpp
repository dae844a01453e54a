// SPDX-License-Identifier: MIT
// Gemma 4, and its assistants.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ref/formats/gguf/gemma.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr GgufName assistant_whole_names[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"nextn.pre_projection", "pre_projection"},
    {"nextn.post_projection", "post_projection"},
    {"masked_embd_centroids", "masked_embedding.centroids"},
    {"masked_embd_ordering", "masked_embedding.token_ordering", false, true},
};

constexpr auto layer_names = joined(gemma_layer, {{"layer_output_scale.weight", "layer_scalar", false, true},
                                                  {"inp_gate", "per_layer_input_gate"},
                                                  {"proj", "per_layer_projection"},
                                                  {"post_norm", "post_per_layer_input_norm"},
                                                  {"ffn_gate_inp", "router.proj"},
                                                  {"ffn_gate_inp.scale", "router.scale", false, true},
                                                  {"ffn_gate_up_exps.weight", "experts.gate_up_proj", false, true},
                                                  {"ffn_gate_exps", "experts.gate_proj"},
                                                  {"ffn_up_exps", "experts.up_proj"},
                                                  {"ffn_down_exps.weight", "experts.down_proj", false, true},
                                                  {"ffn_down_exps.scale", "router.per_expert_scale", false, true},
                                                  {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
                                                  {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
                                                  {"post_ffw_norm_2", "post_feedforward_layernorm_2"}});

void put_gemma4(const GgufKeys& keys, ordered_json& config) {
  put_gemma(keys, config);
  if (!config.contains("layer_types")) keys.fail("attention.sliding_window_pattern", "must list every layer");
  const std::int64_t layers = keys.layers();
  const std::int64_t full_dim = keys.size("attention.key_length");
  const std::int64_t sliding_dim = keys.find_size("attention.key_length_swa").value_or(full_dim);
  for (const auto& [name, dim] : {std::pair("attention.value_length_swa", sliding_dim),
                                  {"rope.dimension_count", full_dim},
                                  {"rope.dimension_count_swa", sliding_dim}}) {
    if (keys.find_size(name).value_or(dim) != dim) keys.fail(name, "must be the length of the keys of these layers");
  }
  config["head_dim"] = sliding_dim;
  config.erase("partial_rotary_factor");
  config.erase("rope_scaling");
  const auto rope = [](double theta) { return ordered_json{{"rope_type", "default"}, {"rope_theta", theta}}; };
  config["rope_parameters"] = {{"full_attention", rope(config["rope_theta"])},
                               {"sliding_attention", rope(keys.find_number("rope.freq_base_swa").value_or(10000.0))}};
  config.erase("rope_theta");
  const std::int64_t shared = put_gemma_layers(keys, config);
  config["per_layer_config"] = ordered_json::object();
  const std::vector<std::int64_t> kv_heads = keys.layer_sizes("attention.head_count_kv");
  for (std::size_t i = 0; i < kv_heads.size() && i < config["layer_types"].size(); ++i) {
    const bool full = config["layer_types"][i] == "full_attention";
    config["per_layer_config"][std::to_string(i)] = {{"head_dim", full ? full_dim : sliding_dim},
                                                     {"num_key_value_heads", kv_heads[i]}};
    const bool own = static_cast<std::int64_t>(i) < layers - shared;
    if (own && full && !keys.has_tensor("blk." + std::to_string(i) + ".attn_v.weight")) {
      config["attention_k_eq_v"] = true;
    }
  }
  const std::vector<std::int64_t> widths = keys.layer_sizes("feed_forward_length");
  config["use_double_wide_mlp"] = widths.back() != widths.front();
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool wide = i >= layers - shared && widths.back() != widths.front();
    if (widths[static_cast<std::size_t>(i)] != widths.front() * (wide ? 2 : 1)) {
      keys.fail("feed_forward_length", "must be one number, or twice as much in layers that share keys");
    }
  }
  if (config.contains("vocab_size")) config["vocab_size_per_layer_input"] = config["vocab_size"];
  if (keys.find_number("expert_count").value_or(0) == 0) return;
  config["enable_moe_block"] = true;
  config["num_experts"] = keys.size("expert_count");
  config["top_k_experts"] = keys.size("expert_used_count");
  config["moe_intermediate_size"] = keys.size("expert_feed_forward_length");
}

Json read(const Gguf& file) {
  return read_gguf_target(file, {"gemma4_text", "Gemma4ForCausalLM", gemma_keys, {}, put_gemma4, GgufLayers::uneven});
}

constexpr std::string_view assistant_keys[] = {"attention.sliding_window",   "attention.sliding_window_pattern",
                                               "final_logit_softcapping",    "rope.freq_base_swa",
                                               "attention.key_length_swa",   "attention.value_length_swa",
                                               "attention.shared_kv_layers", "embedding_length_per_layer_input",
                                               "rope.dimension_count_swa",   "embedding_length_out"};

/// All of its blocks count as predicting layers, and what it returns has the width of its target.
Json read_assistant(const Gguf& file) {
  const GgufKeys keys(file);
  keys.refuse_all_but({transformer_keys, target_keys, assistant_keys});
  ordered_json config =
      transformer_fields(file, keys, "gemma4_assistant", "Gemma4AssistantForCausalLM", GgufLayers::uneven);
  put_gemma4(keys, config);
  config["attention_k_eq_v"] = false;
  config["num_kv_shared_layers"] = config["num_hidden_layers"];
  config["backbone_hidden_size"] = keys.size("embedding_length_out");
  return as_json(file, keys, config, {}, {{"backbone_hidden_size", keys.whole("embedding_length_out")}});
}

/// Layers of full attention and those with a window have heads, RoPE and numbers of KV heads of their own.
void write(const GgufModel& model, GgufKeyWriter& keys) {
  write_gemma_layers(model, keys);
  if (const GgufModel::Attention* const windowed = find_attention(model, true)) {
    for (const char* name : {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"}) {
      keys.size(name, windowed->head_dim);
    }
  }
  if (model.layers[0].experts.count > 0) write_experts(model.layers[0].experts, keys);
}

void write_assistant(const GgufModel& model, GgufKeyWriter& keys) {
  write(model, keys);
  keys.size("nextn_predict_layers", model.depth());
  keys.size("embedding_length_out", model.target_hidden);
}

constexpr const char* model_types[] = {"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"};
constexpr const char* assistant_types[] = {"gemma4_assistant", "gemma4_unified_assistant"};
constexpr GgufNames names = {.whole = gemma_whole, .layer = layer_names};
constexpr GgufNames assistant_names = {.whole = assistant_whole_names, .layer = layer_names};

}  // namespace

const GgufFamily gguf_gemma4 = {"gemma4", model_types, names, read, write};
const GgufFamily gguf_gemma4_assistant = {"gemma4-assistant", assistant_types, assistant_names, read_assistant,
                                          write_assistant};

}  // namespace draftproof
