// SPDX-License-Identifier: MIT
// Families whose files have nothing but what every transformer has: Llama with Mistral, Qwen2, Qwen3; and Qwen3-MoE.
#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

Json read_llama(const Gguf& file) { return read_gguf_target(file, {"llama", "LlamaForCausalLM"}); }
Json read_qwen2(const Gguf& file) { return read_gguf_target(file, {"qwen2", "Qwen2ForCausalLM"}); }
Json read_qwen3(const Gguf& file) { return read_gguf_target(file, {"qwen3", "Qwen3ForCausalLM"}); }
Json read_qwen3_moe(const Gguf& file) {
  return read_gguf_target(file, {"qwen3_moe", "Qwen3MoeForCausalLM", expert_keys, {}, put_experts});
}

constexpr const char* llama_types[] = {"llama", "mistral"};
constexpr const char* qwen2_types[] = {"qwen2"};
constexpr const char* qwen3_types[] = {"qwen3"};
constexpr const char* qwen3_moe_types[] = {"qwen3_moe"};

constexpr GgufNames names = {.whole = transformer_whole, .layer = transformer_layer};
constexpr GgufNames names_in_pairs = {.whole = transformer_whole, .layer = transformer_layer, .pairs_rows = true};

}  // namespace

const GgufFamily gguf_llama = {"llama", llama_types, names_in_pairs, read_llama, write_plain_transformer};
const GgufFamily gguf_qwen2 = {"qwen2", qwen2_types, names, read_qwen2, write_plain_transformer};
const GgufFamily gguf_qwen3 = {"qwen3", qwen3_types, names, read_qwen3, write_plain_transformer};
const GgufFamily gguf_qwen3_moe = {"qwen3moe", qwen3_moe_types, names, read_qwen3_moe, write_plain_transformer};

}  // namespace draftproof
