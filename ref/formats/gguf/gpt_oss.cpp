// SPDX-License-Identifier: MIT
// gpt-oss. llama.cpp rounds the ramp of yarn to whole pairs, of this family as of every other; the models were made
// without (truncate is false in their config.json), and so a file is read here.
#include <nlohmann/json.hpp>
#include <string>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

constexpr GgufName layer[] = {{"attn_norm", "input_layernorm"},
                              {"attn_q", "self_attn.q_proj"},
                              {"attn_k", "self_attn.k_proj"},
                              {"attn_v", "self_attn.v_proj"},
                              {"attn_output", "self_attn.o_proj"},
                              {"attn_sinks.weight", "self_attn.sinks", false, true},
                              {"post_attention_norm", "post_attention_layernorm"},
                              {"ffn_gate_inp", "mlp.router"},
                              {"ffn_gate_exps", "mlp.experts.gate_proj"},
                              {"ffn_up_exps", "mlp.experts.up_proj"},
                              {"ffn_down_exps", "mlp.experts.down_proj"}};
constexpr GgufNames names = {
    .whole = transformer_whole, .layer = layer, .fused = {.interleaved = true, .transposed = true}};
constexpr std::string_view own_keys[] = {"attention.sliding_window", "expert_feed_forward_length"};
constexpr GgufField own_fields[] = {{"intermediate_size", "expert_feed_forward_length"}};

void put(const GgufKeys& keys, nlohmann::ordered_json& config) {
  config["num_experts"] = keys.size("expert_count");
  config["num_experts_per_tok"] = keys.size("expert_used_count");
  config["intermediate_size"] = keys.size("expert_feed_forward_length");
  config["sliding_window"] = keys.size("attention.sliding_window");
  if (config.contains("rope_scaling")) config["rope_scaling"]["truncate"] = false;  // of yarn
}

Json read(const Gguf& file) {
  return read_gguf_target(file, {"gpt_oss", "GptOssForCausalLM", own_keys, own_fields, put});
}

void require_number(const Json& config, const char* field, double value, const char* shown) {
  const auto stated = config.find(field);
  if (stated && stated->number() != value) stated->fail(std::string("must be ") + shown + " in a GGUF of gpt-oss");
}

/// What no key says is as in the published models.
void write(const GgufModel& model, GgufKeyWriter& keys) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (model.layers[i].slides() != (i % 2 == 0)) {
      model.config.at("layer_types").fail("must begin with a sliding layer and alternate in a GGUF of gpt-oss");
    }
  }
  require_number(model.config, "swiglu_alpha", 1.702, "1.702");
  require_number(model.config, "swiglu_limit", 7, "7");
  const auto bias = model.config.find("attention_bias");
  if (bias && !bias->boolean()) bias->fail("must be true in a GGUF of gpt-oss");
  write_transformer(model, keys, GgufLayers::equal, false);
  keys.size("attention.sliding_window", model.layers[0].attention->window);
}

constexpr const char* types[] = {"gpt_oss"};

}  // namespace

const GgufFamily gguf_gpt_oss = {"gpt-oss", types, names, read, write};

}  // namespace draftproof
