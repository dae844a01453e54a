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

}  // namespace draftproof
