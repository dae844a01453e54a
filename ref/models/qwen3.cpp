// SPDX-License-Identifier: MIT
// Qwen3, dense (Hugging Face `qwen3`): GQA with per-head q and k norms, RoPE, SwiGLU, tied or untied head, full or
// sliding layers. Source: transformers, models/qwen3.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json);
  set_qk_norm(QkNorm::heads, config);
  return config;
}

constexpr ArchitectureName names[] = {{"qwen3", "Qwen3ForCausalLM"}};

}  // namespace

const Architecture qwen3_architecture = {
    .names = names, .describe = describe_model, .load = load_pre_norm_decoder, .mtp = &pre_norm_blocks};

}  // namespace draftproof
