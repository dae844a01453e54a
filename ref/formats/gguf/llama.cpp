// SPDX-License-Identifier: MIT
// Families whose files have nothing but what every transformer has: Llama with Mistral and, of experts, Mixtral; Qwen2,
// Qwen3; and Qwen3-MoE.
#include <nlohmann/json.hpp>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

constexpr std::string_view mixtral_keys[] = {"expert_feed_forward_length"};

void put_mixtral(const GgufKeys& keys, nlohmann::ordered_json& config) {
  config["num_experts"] = keys.size("expert_count");
  config["num_experts_per_tok"] = keys.size("expert_used_count");
  const std::int64_t size = keys.layer_size("feed_forward_length");
  if (keys.find_size("expert_feed_forward_length").value_or(size) != size) {
    keys.fail("expert_feed_forward_length", "differs from feed_forward_length");
  }
}

/// One with experts is a Mixtral.
Json read_llama(const Gguf& file) {
  const bool experts = GgufKeys(file).find_integer("expert_count").value_or(0) != 0;
  if (experts) return read_gguf_target(file, {"mixtral", "MixtralForCausalLM", mixtral_keys, {}, put_mixtral});
  return read_gguf_target(file, {"llama", "LlamaForCausalLM"});
}
Json read_qwen2(const Gguf& file) { return read_gguf_target(file, {"qwen2", "Qwen2ForCausalLM"}); }
Json read_qwen3(const Gguf& file) { return read_gguf_target(file, {"qwen3", "Qwen3ForCausalLM"}); }
Json read_qwen3_moe(const Gguf& file) {
  return read_gguf_target(file, {"qwen3_moe", "Qwen3MoeForCausalLM", expert_keys, {}, put_experts});
}

constexpr const char* llama_types[] = {"llama", "mistral", "mixtral"};
constexpr const char* qwen2_types[] = {"qwen2"};
constexpr const char* qwen3_types[] = {"qwen3"};
constexpr const char* qwen3_moe_types[] = {"qwen3_moe"};

constexpr GgufNames names = {.whole = transformer_whole, .layer = transformer_layer};
constexpr auto llama_layer = joined({{"attn_norm", "input_layernorm"},
                                     {"attn_q", "self_attn.q_proj", true},
                                     {"attn_k", "self_attn.k_proj", true},
                                     {"attn_v", "self_attn.v_proj"},
                                     {"attn_output", "self_attn.o_proj"},
                                     {"ffn_norm", "post_attention_layernorm"},
                                     {"ffn_gate", "mlp.gate_proj"},
                                     {"ffn_up", "mlp.up_proj"},
                                     {"ffn_down", "mlp.down_proj"},
                                     {"ffn_gate_inp", "block_sparse_moe.gate"},
                                     {"ffn_gate_exps", "block_sparse_moe.experts.w1"},
                                     {"ffn_up_exps", "block_sparse_moe.experts.w3"},
                                     {"ffn_down_exps", "block_sparse_moe.experts.w2"}},
                                    mtp_head_names);
constexpr GgufNames names_in_pairs = {.whole = transformer_whole, .layer = llama_layer, .pairs_rows = true};

}  // namespace

const GgufFamily gguf_llama = {"llama", llama_types, names_in_pairs, read_llama, write_plain_transformer};
const GgufFamily gguf_qwen2 = {"qwen2", qwen2_types, names, read_qwen2, write_plain_transformer};
const GgufFamily gguf_qwen3 = {"qwen3", qwen3_types, names, read_qwen3, write_plain_transformer};
const GgufFamily gguf_qwen3_moe = {"qwen3moe", qwen3_moe_types, names, read_qwen3_moe, write_plain_transformer};

}  // namespace draftproof
