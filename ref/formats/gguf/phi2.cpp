// SPDX-License-Identifier: MIT
// Phi-1, 1.5 and 2. Older files have q, k and v in one tensor.
#include <nlohmann/json.hpp>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr GgufName layer[] = {{"attn_norm", "input_layernorm"},
                              {"attn_q", "self_attn.q_proj"},
                              {"attn_k", "self_attn.k_proj"},
                              {"attn_v", "self_attn.v_proj"},
                              {"attn_qkv", "self_attn.qkv_proj"},
                              {"attn_output", "self_attn.dense"},
                              {"ffn_up", "mlp.fc1"},
                              {"ffn_down", "mlp.fc2"}};
constexpr GgufNames names = {.whole = final_layernorm_whole, .layer = layer};
constexpr std::string_view own_keys[] = {"attention.layer_norm_epsilon"};
constexpr GgufField own_fields[] = {{"layer_norm_eps", "attention.layer_norm_epsilon"}};

void put_phi2(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  config["hidden_act"] = "gelu_new";
  config.erase("attention_bias");
  config.erase("mlp_bias");
  if (!config.contains("partial_rotary_factor")) config["partial_rotary_factor"] = 1;
}

Json read(const Gguf& file) {
  return read_gguf_target(file, {"phi", "PhiForCausalLM", own_keys, own_fields, put_phi2});
}

constexpr const char* model_types[] = {"phi"};

}  // namespace

const GgufFamily gguf_phi2 = {"phi2", model_types, names, read, write_plain_transformer};

}  // namespace draftproof
