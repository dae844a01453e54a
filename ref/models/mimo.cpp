// SPDX-License-Identifier: MIT
// MiMo-7B (Hugging Face `mimo`): Qwen2 with MTP heads of its own form (mtp.h). Source: Xiaomi's modeling_mimo.py; vLLM,
// models/mimo.py.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json);
  refuse_if_set(json, "use_mrope", "RoPE of several positions is not implemented");
  const auto bias = json.find("attention_bias");
  if (bias && !bias->boolean()) bias->fail("must be true; MiMo has biases of q, k and v");
  for (LayerConfig& layer : config.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    attention.qkv_bias = true;
    attention.output_bias = false;  // whatever attention_bias says
  }
  config.unused.emplace_back("model.mtp_layers.");
  return config;
}

constexpr ArchitectureName names[] = {{"mimo", "MiMoForCausalLM"}};

}  // namespace

const Architecture mimo_architecture = {
    .names = names, .describe = describe_model, .load = load_pre_norm_decoder, .mtp = &pre_norm_blocks};

}  // namespace draftproof
