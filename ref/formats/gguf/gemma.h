// SPDX-License-Identifier: MIT
// What the families of Gemma share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {

inline constexpr GgufName gemma_layer[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

/// Of Gemma 3n and 4: the table of what tokens have of their own for each layer.
inline constexpr GgufName gemma_whole[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"per_layer_token_embd", "model.embed_tokens_per_layer"},
    {"per_layer_model_proj", "model.per_layer_model_projection"},
    {"per_layer_proj_norm", "model.per_layer_projection_norm"},
};

inline constexpr std::string_view gemma_keys[] = {"attention.sliding_window",
                                                  "attention.sliding_window_pattern",
                                                  "attn_logit_softcapping",
                                                  "final_logit_softcapping",
                                                  "rope.freq_base_swa",
                                                  "attention.key_length_swa",
                                                  "attention.value_length_swa",
                                                  "attention.shared_kv_layers",
                                                  "embedding_length_per_layer_input",
                                                  "rope.dimension_count_swa",
                                                  "expert_feed_forward_length"};

/// Adds layer types, caps and the window. Without a pattern llama.cpp takes the period of the class.
void put_gemma(const GgufKeys& keys, nlohmann::ordered_json& config);
/// Adds how many of the last layers read the keys of others, and the width of what tokens have of their own for each.
/// Returns the former.
std::int64_t put_gemma_layers(const GgufKeys& keys, nlohmann::ordered_json& config);
/// Returns the attention of the last layer that slides, or of the last one that does not; nullptr without such a layer.
const GgufModel::Attention* find_attention(const GgufModel& model, bool slides);
/// Adds the keys of a model whose layers may share keys. Lengths of heads are those of layers without a window.
void write_gemma_layers(const GgufModel& model, GgufKeyWriter& keys);

}  // namespace draftproof
