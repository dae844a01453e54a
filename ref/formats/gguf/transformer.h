// SPDX-License-Identifier: MIT
// What families of decoder-only transformers share: names of tensors, and keys, read and written.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "ref/formats/gguf/family.h"

namespace draftproof {

inline constexpr GgufName transformer_whole[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};

/// The same with another name of the last norm.
inline constexpr GgufName final_layernorm_whole[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.final_layernorm"}, {"output", "lm_head"}};

/// Of MTP heads, which are behind the layers.
inline constexpr GgufName mtp_head_names[] = {
    {"nextn.eh_proj", "eh_proj"},
    {"nextn.enorm", "enorm"},
    {"nextn.hnorm", "hnorm"},
    {"nextn.shared_head_norm", "shared_head.norm"},
    {"nextn.shared_head_head", "shared_head.head"},
    {"nextn.embed_tokens", "embed_tokens"},
};

/// Whether files of the family have MTP heads. Those of ERNIE 4.5 have none.
bool keeps_mtp_heads(const GgufNames& names);

/// Of layers like those of Llama, with and without experts.
inline constexpr auto transformer_layer =
    joined({{"attn_norm", "input_layernorm"},
            {"attn_q", "self_attn.q_proj", true},
            {"attn_k", "self_attn.k_proj", true},
            {"attn_v", "self_attn.v_proj"},
            {"attn_output", "self_attn.o_proj"},
            {"attn_q_norm", "self_attn.q_norm"},
            {"attn_k_norm", "self_attn.k_norm"},
            {"ffn_norm", "post_attention_layernorm"},
            {"ffn_gate", "mlp.gate_proj"},
            {"ffn_up", "mlp.up_proj"},
            {"ffn_down", "mlp.down_proj"},
            // Of Qwen3-MoE; one tensor for all experts: [experts][outputs][inputs].
            {"ffn_gate_inp", "mlp.gate"},
            {"ffn_gate_exps", "mlp.experts.gate_proj"},
            {"ffn_up_exps", "mlp.experts.up_proj"},
            {"ffn_down_exps", "mlp.experts.down_proj"}},
           mtp_head_names);

/// The keys of every transformer.
inline constexpr std::string_view transformer_keys[] = {"block_count",
                                                        "context_length",
                                                        "embedding_length",
                                                        "feed_forward_length",
                                                        "attention.head_count",
                                                        "attention.head_count_kv",
                                                        "attention.key_length",
                                                        "attention.value_length",
                                                        "attention.layer_norm_rms_epsilon",
                                                        "rope.freq_base",
                                                        "rope.dimension_count",
                                                        "rope.scaling.type",
                                                        "rope.scaling.factor",
                                                        "rope.scaling.original_context_length",
                                                        "rope.scaling.finetuned",
                                                        "rope.scaling.attn_factor",
                                                        "rope.scaling.yarn_log_multiplier",
                                                        "rope.scaling.yarn_beta_fast",
                                                        "rope.scaling.yarn_beta_slow",
                                                        "rope.scaling.yarn_ext_factor",
                                                        "rope.scaling.yarn_attn_factor",
                                                        "rope.scale_linear",
                                                        "vocab_size",
                                                        "tensor_data_layout"};

/// And of target models. The accepted values of these keys have no effect.
inline constexpr std::string_view target_keys[] = {"attention.causal", "expert_count", "expert_used_count",
                                                   "nextn_predict_layers"};

/// What expert_gating_func says of scores.
inline constexpr std::int64_t softmax_gating = 1;
inline constexpr std::int64_t sigmoid_gating = 2;

/// And of those with recurrent layers.
inline constexpr std::string_view recurrence_keys[] = {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count",
                                                       "ssm.time_step_rank", "ssm.inner_size"};

/// A field of a config, and the key that it was read from.
struct GgufField {
  const char* field;
  const char* key;
};

// Reading.

/// What a file may say of layers one by one. uneven: fields have the sizes of the first one. latent: all are equal, and
/// their values are a part of their keys. some_attend: those without attention have no KV heads. parts: so it is, and
/// those without an MLP have no width of one.
enum class GgufLayers { equal, uneven, latent, some_attend, parts };

/// Returns the configuration fields of every decoder-only transformer.
nlohmann::ordered_json transformer_fields(const Gguf& file, const GgufKeys& keys, const char* model_type,
                                          const char* class_name, GgufLayers layers = GgufLayers::equal);

/// Throws Error when experts are in groups.
void require_one_group(const GgufKeys& keys);
/// Throws Error when keys name experts.
void refuse_experts(const GgufKeys& keys, nlohmann::ordered_json& config);
/// Adds the fields of experts in every layer.
void put_experts(const GgufKeys& keys, nlohmann::ordered_json& config);
inline constexpr std::string_view expert_keys[] = {"expert_feed_forward_length", "expert_weights_scale",
                                                   "expert_weights_norm", "expert_gating_func"};
inline constexpr GgufField granite_factors[] = {{"attention_multiplier", "attention.scale"},
                                                {"embedding_multiplier", "embedding_scale"},
                                                {"residual_multiplier", "residual_scale"},
                                                {"logits_scaling", "logit_scale"}};
/// Adds the four factors of Granite; without a scale of scores it is 1 / sqrt(head_dim).
void put_granite_factors(const GgufKeys& keys, nlohmann::ordered_json& config);
/// Adds layer_types by the key that lists which layers slide, if it is there.
void put_sliding_layers(const GgufKeys& keys, nlohmann::ordered_json& config);

/// Errors about a field name the key that it was read from: the one in `names`, else that of `own` or of every
/// transformer.
Json as_json(const Gguf& file, const GgufKeys& keys, const nlohmann::ordered_json& config,
             std::span<const GgufField> own = {}, std::map<std::string, std::string> names = {});

/// How the config of a target is read.
struct GgufTarget {
  const char* model_type;
  const char* class_name;
  std::span<const std::string_view> own_keys = {};  // that other targets do not have
  std::span<const GgufField> own_fields = {};
  void (*put)(const GgufKeys& keys, nlohmann::ordered_json& config) = refuse_experts;  // adds the fields they make
  GgufLayers layers = GgufLayers::equal;
};
Json read_gguf_target(const Gguf& file, const GgufTarget& how);

// Writing.

/// Adds the keys of every transformer. some_attend, parts: the number of KV heads is that of each layer. `rounds_ramp`:
/// that of yarn, to whole pairs, which no key says. Throws Error for a model of which that is not so. latent: the
/// logarithm's multiplier of yarn is a tenth of mscale_all_dim, which mscale must be.
void write_transformer(const GgufModel& model, GgufKeyWriter& keys, GgufLayers layers = GgufLayers::equal,
                       bool rounds_ramp = true);
void write_experts(const GgufModel::Experts& experts, GgufKeyWriter& keys);
/// The same for families whose graphs in llama.cpp have neither a window nor layers with and without experts: throws
/// Error for a model that has.
void write_plain_transformer(const GgufModel& model, GgufKeyWriter& keys);
/// Adds the sizes of recurrent layers.
void write_recurrence(const GgufModel& model, GgufKeyWriter& keys);
void write_granite_factors(const GgufModel& model, GgufKeyWriter& keys);
/// Adds an array of booleans: which layers slide.
void write_sliding_layers(const GgufModel& model, GgufKeyWriter& keys);

/// Returns the block that describes how RoPE is scaled; the config itself when it has none.
Json rope_block(const Json& config);

}  // namespace draftproof
