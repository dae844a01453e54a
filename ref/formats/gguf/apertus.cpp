// SPDX-License-Identifier: MIT
// Apertus. The numbers of its activation are in the metadata, one of each layer.
#include <nlohmann/json.hpp>
#include <string>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr GgufName layer[] = {
    {"attn_norm", "attention_layernorm"}, {"attn_q", "self_attn.q_proj"},        {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},       {"attn_output", "self_attn.o_proj"},   {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},  {"ffn_norm", "feedforward_layernorm"}, {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};
constexpr GgufNames names = {.whole = transformer_whole, .layer = layer};
constexpr const char* numbers[] = {"alpha_p", "alpha_n", "beta", "eps"};

void put_apertus(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  config["hidden_act"] = "xielu";
  for (const std::string name : numbers) config["xielu_" + name] = keys.layer_numbers("xielu." + name);
}

Json read(const Gguf& file) { return read_gguf_target(file, {"apertus", "ApertusForCausalLM", {}, {}, put_apertus}); }

void write(const GgufModel& model, GgufKeyWriter& keys) {
  write_plain_transformer(model, keys);
  for (const std::string name : numbers) {
    keys.fields().numbers("xielu." + name, model.layer_numbers("mlp.act_fn." + name, "xielu_" + name));
  }
}

constexpr const char* model_types[] = {"apertus"};

}  // namespace

const GgufFamily gguf_apertus = {"apertus", model_types, names, read, write};

}  // namespace draftproof
