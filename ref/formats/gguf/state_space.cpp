// SPDX-License-Identifier: MIT
// Families with Mamba-2 layers: Mamba-2 itself, and Granite 4, whose other layers have attention.
#include "ref/formats/gguf/state_space.h"

#include <nlohmann/json.hpp>

#include "ref/formats/gguf/stop_tokens.h"
#include "ref/formats/gguf/transformer.h"

namespace draftproof {

using nlohmann::ordered_json;

void put_state_space(const GgufKeys& keys, const GgufStateSpaceFields& fields, ordered_json& config) {
  const std::int64_t heads = keys.size("ssm.time_step_rank");
  const std::int64_t inner = keys.size("ssm.inner_size");
  const std::int64_t hidden = keys.size("embedding_length");
  if (inner % heads != 0) keys.fail("ssm.inner_size", "must be a multiple of ssm.time_step_rank");
  config[fields.heads] = heads;
  config[fields.head_dim] = inner / heads;
  config[fields.groups] = keys.size("ssm.group_count");
  config[fields.state_size] = keys.size("ssm.state_size");
  config[fields.conv_width] = keys.size("ssm.conv_kernel");
  if (fields.inner != nullptr) config[fields.inner] = inner;
  if (fields.expand == nullptr) return;
  if (inner % hidden != 0) keys.fail("ssm.inner_size", "must be a multiple of embedding_length");
  config[fields.expand] = inner / hidden;
}

namespace {

// Mamba-2.

constexpr GgufNames mamba2_names = {.whole = mamba2_whole, .layer = mamba2_layer};

constexpr GgufStateSpaceFields mamba2_sizes = {.heads = "num_heads",
                                               .head_dim = "head_dim",
                                               .groups = "n_groups",
                                               .state_size = "state_size",
                                               .conv_width = "conv_kernel",
                                               .expand = "expand"};
constexpr std::string_view mamba2_keys[] = {
    "block_count",         "context_length",       "embedding_length",
    "feed_forward_length", "attention.head_count", "attention.layer_norm_rms_epsilon",
    "vocab_size"};
constexpr GgufField mamba2_fields[] = {{"num_heads", "ssm.time_step_rank"},
                                       {"head_dim", "ssm.inner_size"},
                                       {"n_groups", "ssm.group_count"},
                                       {"state_size", "ssm.state_size"},
                                       {"conv_kernel", "ssm.conv_kernel"},
                                       {"expand", "ssm.inner_size"},
                                       {"layer_norm_epsilon", "attention.layer_norm_rms_epsilon"}};

Json read_mamba2(const Gguf& file) {
  const GgufKeys keys(file);
  keys.refuse_all_but({mamba2_keys, recurrence_keys});
  for (const char* name : {"feed_forward_length", "attention.head_count"}) {
    if (keys.find_integer(name).value_or(0) != 0) keys.fail(name, "must be 0; Mamba-2 has neither MLP nor attention");
  }
  ordered_json config = {{"model_type", "mamba2"},
                         {"architectures", {"Mamba2ForCausalLM"}},
                         {"hidden_size", keys.size("embedding_length")},
                         {"num_hidden_layers", keys.layers()},
                         {"max_position_embeddings", keys.size("context_length")},
                         {"layer_norm_epsilon", keys.number("attention.layer_norm_rms_epsilon")},
                         {"hidden_act", "silu"},
                         {"tie_word_embeddings", !file.tensors().contains("output.weight")}};
  put_state_space(keys, mamba2_sizes, config);
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end() || embedding->second.shape.size() != 2) {
    keys.fail("vocab_size", "cannot be computed; the tensor token_embd.weight is missing");
  }
  config["vocab_size"] = keys.find_size("vocab_size").value_or(embedding->second.shape[0]);
  put_stop_tokens(file, config);
  return as_json(file, keys, config, mamba2_fields, {{"eos_token_id", "tokenizer.ggml.eos_token_id"}});
}

void write_mamba2(const GgufModel& model, GgufKeyWriter& keys) {
  keys.size("block_count", model.depth());
  keys.size("context_length", model.context);
  keys.size("embedding_length", model.hidden);
  keys.size("feed_forward_length", 0);
  keys.size("attention.head_count", 0);
  keys.number("attention.layer_norm_rms_epsilon", model.epsilon);
  write_recurrence(model, keys);
}

constexpr const char* mamba2_types[] = {"mamba2"};

// Granite 4. Of the two names of the MLP that every row goes through the second is that beside experts.

constexpr GgufName granite_layer[] = {{"attn_norm", "input_layernorm"},
                                      {"attn_q", "self_attn.q_proj", true},
                                      {"attn_k", "self_attn.k_proj", true},
                                      {"attn_v", "self_attn.v_proj"},
                                      {"attn_output", "self_attn.o_proj"},
                                      {"ssm_in", "mamba.in_proj"},
                                      {"ssm_conv1d", "mamba.conv1d"},
                                      {"ssm_dt.bias", "mamba.dt_bias", false, true},
                                      {"ssm_a", "mamba.A_log", false, true},
                                      {"ssm_d", "mamba.D", false, true},
                                      {"ssm_norm", "mamba.norm"},
                                      {"ssm_out", "mamba.out_proj"},
                                      {"ffn_norm", "post_attention_layernorm"},
                                      {"ffn_gate", "shared_mlp.gate_proj"},
                                      {"ffn_up", "shared_mlp.up_proj"},
                                      {"ffn_down", "shared_mlp.down_proj"},
                                      {"ffn_gate_shexp", "shared_mlp.gate_proj"},
                                      {"ffn_up_shexp", "shared_mlp.up_proj"},
                                      {"ffn_down_shexp", "shared_mlp.down_proj"},
                                      {"ffn_gate_inp", "block_sparse_moe.router.layer"},
                                      {"ffn_gate_exps", "block_sparse_moe.experts.gate_proj"},
                                      {"ffn_up_exps", "block_sparse_moe.experts.up_proj"},
                                      {"ffn_down_exps", "block_sparse_moe.experts.down_proj"}};
constexpr GgufNames granite_names = {
    .whole = transformer_whole,
    .layer = granite_layer,
    .pairs_rows = true,
    .fused = {.gate_up = "block_sparse_moe.input_linear", .down = "block_sparse_moe.output_linear"}};

constexpr GgufStateSpaceFields granite_sizes = {.heads = "mamba_n_heads",
                                                .head_dim = "mamba_d_head",
                                                .groups = "mamba_n_groups",
                                                .state_size = "mamba_d_state",
                                                .conv_width = "mamba_d_conv",
                                                .expand = "mamba_expand"};
constexpr std::string_view hybrid_keys[] = {
    "attention.scale", "embedding_scale", "residual_scale",  "logit_scale",        "expert_shared_feed_forward_length",
    "ssm.conv_kernel", "ssm.state_size",  "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size"};
constexpr GgufField hybrid_fields[] = {{"attention_multiplier", "attention.scale"},
                                       {"embedding_multiplier", "embedding_scale"},
                                       {"residual_multiplier", "residual_scale"},
                                       {"logits_scaling", "logit_scale"},
                                       {"shared_intermediate_size", "expert_shared_feed_forward_length"},
                                       {"num_local_experts", "expert_count"},
                                       {"layer_types", "attention.head_count_kv"},
                                       {"position_embedding_type", "rope.scaling.finetuned"},
                                       {"mamba_n_heads", "ssm.time_step_rank"},
                                       {"mamba_d_head", "ssm.inner_size"},
                                       {"mamba_n_groups", "ssm.group_count"},
                                       {"mamba_d_state", "ssm.state_size"},
                                       {"mamba_d_conv", "ssm.conv_kernel"},
                                       {"mamba_expand", "ssm.inner_size"}};

void put_granite_hybrid(const GgufKeys& keys, ordered_json& config) {
  put_granite_factors(keys, config);
  const std::int64_t experts = keys.find_integer("expert_count").value_or(0);
  config["num_local_experts"] = experts;
  if (experts > 0) config["num_experts_per_tok"] = keys.size("expert_used_count");
  config["shared_intermediate_size"] =
      keys.size(experts > 0 ? "expert_shared_feed_forward_length" : "feed_forward_length");
  config["position_embedding_type"] = keys.find_boolean("rope.scaling.finetuned").value_or(true) ? "rope" : "nope";
  for (const std::int64_t kv_heads : keys.attention_sizes("attention.head_count_kv")) {
    config["layer_types"].push_back(kv_heads > 0 ? "attention" : "mamba");
  }
  put_state_space(keys, granite_sizes, config);
}

Json read_granite_hybrid(const Gguf& file) {
  return read_gguf_target(file, {.model_type = "granitemoehybrid",
                                 .class_name = "GraniteMoeHybridForCausalLM",
                                 .own_keys = hybrid_keys,
                                 .own_fields = hybrid_fields,
                                 .put = put_granite_hybrid,
                                 .layers = GgufLayers::some_attend});
}

/// The width of an MLP is that of the experts where there are any.
void write_granite_hybrid(const GgufModel& model, GgufKeyWriter& keys) {
  GgufModel dense = model;
  const GgufModel::Experts experts = model.layers[0].experts;
  bool turned = false;
  for (GgufModel::Layer& layer : dense.layers) {
    turned = turned || (layer.attention && layer.attention->turned);
    if (experts.count > 0) layer.intermediate = experts.intermediate;
    layer.experts = {};
  }
  write_transformer(dense, keys, GgufLayers::some_attend);
  if (experts.count > 0) {
    keys.size("expert_count", experts.count);
    keys.size("expert_used_count", experts.chosen);
    keys.size("expert_shared_feed_forward_length", model.layers[0].intermediate);
  }
  keys.truth("rope.scaling.finetuned", turned);
  write_granite_factors(model, keys);
  write_recurrence(model, keys);
}

constexpr const char* granite_types[] = {"granitemoehybrid"};

}  // namespace

const GgufFamily gguf_mamba2 = {"mamba2", mamba2_types, mamba2_names, read_mamba2, write_mamba2};
const GgufFamily gguf_granite_hybrid = {"granitehybrid", granite_types, granite_names, read_granite_hybrid,
                                        write_granite_hybrid};

}  // namespace draftproof
