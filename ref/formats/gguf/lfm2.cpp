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
                                    {"ffn_down", "feed_forward.w2"}};
constexpr GgufNames names = {.whole = whole_names, .layer = layer_names};

constexpr std::string_view own_keys[] = {"shortconv.l_cache"};
constexpr GgufField own_fields[] = {{"norm_eps", "attention.layer_norm_rms_epsilon"},
                                    {"conv_L_cache", "shortconv.l_cache"},
                                    {"layer_types", "attention.head_count_kv"}};

void put(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  config["norm_eps"] = config["rms_norm_eps"];
  config["conv_L_cache"] = keys.size("shortconv.l_cache");
  config["block_auto_adjust_ff_dim"] = false;
  for (const std::int64_t kv_heads : keys.attention_sizes("attention.head_count_kv")) {
    config["layer_types"].push_back(kv_heads > 0 ? "full_attention" : "conv");
  }
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

constexpr const char* types[] = {"lfm2"};

}  // namespace

const GgufFamily gguf_lfm2 = {"lfm2", types, names, read, write};

}  // namespace draftproof
