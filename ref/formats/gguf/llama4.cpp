// SPDX-License-Identifier: MIT
// The text model of Llama 4. Chunks, the growth of queries and norms of heads are as in the published models, whose
// files do not say them.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr GgufName layer[] = {{"attn_norm", "input_layernorm"},
                              {"attn_q", "self_attn.q_proj"},
                              {"attn_k", "self_attn.k_proj"},
                              {"attn_v", "self_attn.v_proj"},
                              {"attn_output", "self_attn.o_proj"},
                              {"ffn_norm", "post_attention_layernorm"},
                              {"ffn_gate", "feed_forward.gate_proj"},
                              {"ffn_up", "feed_forward.up_proj"},
                              {"ffn_down", "feed_forward.down_proj"},
                              {"ffn_gate_inp", "feed_forward.router"},
                              {"ffn_gate_exps", "feed_forward.experts.gate_proj"},
                              {"ffn_up_exps", "feed_forward.experts.up_proj"},
                              {"ffn_down_exps", "feed_forward.experts.down_proj"},
                              {"ffn_gate_shexp", "feed_forward.shared_expert.gate_proj"},
                              {"ffn_up_shexp", "feed_forward.shared_expert.up_proj"},
                              {"ffn_down_shexp", "feed_forward.shared_expert.down_proj"}};
constexpr GgufNames names = {
    .whole = transformer_whole,
    .layer = layer,
    .fused = {
        .gate_up = "feed_forward.experts.gate_up_proj", .down = "feed_forward.experts.down_proj", .transposed = true}};
constexpr std::string_view own_keys[] = {"attention.sliding_window",   "attention.sliding_window_pattern",
                                         "expert_feed_forward_length", "expert_shared_feed_forward_length",
                                         "expert_shared_count",        "interleave_moe_layer_step",
                                         "expert_weights_scale"};
constexpr GgufField own_fields[] = {{"num_local_experts", "expert_count"},
                                    {"intermediate_size", "expert_feed_forward_length"},
                                    {"intermediate_size_mlp", "feed_forward_length"},
                                    {"interleave_moe_layer_step", "interleave_moe_layer_step"},
                                    {"attention_chunk_size", "attention.sliding_window"},
                                    {"no_rope_layer_interval", "attention.sliding_window_pattern"}};

// What llama.cpp takes them to be.
constexpr std::int64_t chunk = 8192;
constexpr std::int64_t growth_step = 8192;
constexpr double growth_beta = 0.1;
constexpr std::int64_t interval = 4;
constexpr std::int64_t experts_without_head_norms = 128;

void put(const GgufKeys& keys, ordered_json& config) {
  config["num_local_experts"] = keys.size("expert_count");
  config["num_experts_per_tok"] = keys.size("expert_used_count");
  config["intermediate_size"] = keys.size("expert_feed_forward_length");
  config["intermediate_size_mlp"] = keys.layer_size("feed_forward_length");
  config["interleave_moe_layer_step"] = keys.size("interleave_moe_layer_step");
  if (const auto scale = keys.find_number("expert_weights_scale"); scale && *scale != 0 && *scale != 1) {
    keys.fail("expert_weights_scale", "is not implemented; only 1 is");
  }
  config["use_qk_norm"] = keys.size("expert_count") != experts_without_head_norms;
  config["floor_scale"] = growth_step;
  config["attn_scale"] = growth_beta;
  config["attention_chunk_size"] = chunk;
  config["no_rope_layer_interval"] = interval;
  if (keys.find_integer("attention.sliding_window_pattern").value_or(interval) != interval) {
    keys.fail("attention.sliding_window_pattern", "must be 4");
  }
  if (keys.find_integer("attention.sliding_window").value_or(chunk) == 0) {
    keys.fail("attention.sliding_window", "is 0, and layers without chunks are not implemented");
  }
}

Json read(const Gguf& file) {
  return read_gguf_target(file, {"llama4_text", "Llama4ForCausalLM", own_keys, own_fields, put});
}

/// What no key says is as in the published models.
void write(const GgufModel& model, GgufKeyWriter& keys) {
  const Json& config = model.config;
  const auto require = [&](const char* field, bool right, const std::string& what) {
    if (!right) config.find(field).value_or(config).fail(what + " in a GGUF of llama4");
  };
  const auto number = [&](const char* field, double absent) {
    const auto value = config.find(field);
    return value ? value->number() : absent;
  };
  const auto found = std::ranges::find_if(model.layers, [](const auto& one) { return one.experts.count > 0; });
  require("moe_layers", found != model.layers.end(), "must list a layer");
  const auto step = static_cast<std::int64_t>(number("interleave_moe_layer_step", 1));
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const GgufModel::Layer& one = model.layers[i];
    const auto place = static_cast<std::int64_t>(i) + 1;
    require("moe_layers", (one.experts.count > 0) == (place % step == 0), "must be every interleave_moe_layer_step-th");
    require("no_rope_layers", one.attention->turned == (place % interval != 0), "must leave out every fourth layer");
    require("layer_types", one.slides() == one.attention->turned, "must have chunks where RoPE turns");
    require("attention_chunk_size", !one.slides() || one.attention->window == chunk, "must be 8192");
  }
  const auto tuned = config.find("attn_temperature_tuning");
  require("attn_temperature_tuning", !tuned || !tuned->is_boolean() || tuned->boolean(), "must be true");
  require("floor_scale", number("floor_scale", growth_step) == growth_step, "must be 8192");
  require("attn_scale", number("attn_scale", growth_beta) == growth_beta, "must be 0.1");
  const bool normed = found->experts.count != experts_without_head_norms;
  const auto norm = config.find("use_qk_norm");
  require("use_qk_norm", (!norm || norm->boolean()) == normed, "must be true, but of 128 experts false,");
  write_transformer(model, keys);
  if (model.layers[0].experts.count == 0) write_experts(found->experts, keys);
  keys.size("interleave_moe_layer_step", step);
}

constexpr const char* types[] = {"llama4_text", "llama4"};

}  // namespace

const GgufFamily gguf_llama4 = {"llama4", types, names, read, write};

}  // namespace draftproof
