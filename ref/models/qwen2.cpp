// SPDX-License-Identifier: MIT
// Qwen2 and Qwen2.5, dense (Hugging Face `qwen2`): GQA with biases on q, k and v and on nothing else, RoPE, SwiGLU,
// tied or untied head, full layers or, late in the stack, sliding ones. Source: transformers, models/qwen2.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json);
  for (LayerConfig& layer : config.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    if (attention.output_bias) json.at("attention_bias").fail("is not implemented; Qwen2 has biases of q, k and v");
    attention.qkv_bias = true;
  }
  return config;
}

constexpr ArchitectureName names[] = {{"qwen2", "Qwen2ForCausalLM"}};

}  // namespace

const Architecture qwen2_architecture = {
    .names = names, .describe = describe_model, .load = load_pre_norm_decoder, .mtp = &pre_norm_blocks};

}  // namespace draftproof
