// SPDX-License-Identifier: MIT
// BitNet b1.58. A file that names no activation is one of SiLU.
#include <nlohmann/json.hpp>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr GgufName layer[] = {{"attn_norm", "input_layernorm"},
                              {"attn_q", "self_attn.q_proj"},
                              {"attn_k", "self_attn.k_proj"},
                              {"attn_v", "self_attn.v_proj"},
                              {"attn_sub_norm", "self_attn.attn_sub_norm"},
                              {"attn_output", "self_attn.o_proj"},
                              {"ffn_norm", "post_attention_layernorm"},
                              {"ffn_gate", "mlp.gate_proj"},
                              {"ffn_up", "mlp.up_proj"},
                              {"ffn_sub_norm", "mlp.ffn_sub_norm"},
                              {"ffn_down", "mlp.down_proj"}};
constexpr GgufNames names = {.whole = transformer_whole, .layer = layer};
constexpr std::string_view own_keys[] = {"hidden_activation"};
constexpr GgufField own_fields[] = {{"hidden_act", "hidden_activation"}};

void put_bitnet(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  const std::string* const activation = keys.find_text("hidden_activation");
  if (activation != nullptr) config["hidden_act"] = *activation;
}

Json read(const Gguf& file) {
  return read_gguf_target(file, {"bitnet", "BitNetForCausalLM", own_keys, own_fields, put_bitnet});
}

void write(const GgufModel& model, GgufKeyWriter& keys) {
  write_plain_transformer(model, keys);
  keys.text("hidden_activation", model.config.at("hidden_act").string());
}

constexpr const char* model_types[] = {"bitnet"};

}  // namespace

const GgufFamily gguf_bitnet = {"bitnet", model_types, names, read, write};

}  // namespace draftproof
