// SPDX-License-Identifier: MIT
// Llama 2 and 3 (Hugging Face `llama`): GQA without norms or biases, RoPE, from 3.1 on stretched ("llama3"), SwiGLU,
// tied or untied head, full layers. Source: transformers, models/llama.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json);
  for (int i = 0; i < config.depth(); ++i) {
    if (config.attention(i).window != AttentionCache::everything) {
      json.fail("asks for sliding layers, which Llama does not have");
    }
  }
  return config;
}

constexpr ArchitectureName names[] = {{"llama", "LlamaForCausalLM"}};

}  // namespace

const Architecture llama_architecture = {
    .names = names, .describe = describe_model, .load = load_pre_norm_decoder, .mtp = &pre_norm_blocks};

}  // namespace draftproof
