// SPDX-License-Identifier: MIT
// BitNet b1.58 (Hugging Face `bitnet`): Llama with a norm of what attention and gates give before it is projected, and
// the square of ReLU for SiLU. Rows are not rounded to eight bits, as its quantized layers of transformers round them.
// Source: transformers, models/bitnet.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-5};

TransformerConfig describe_model(const Json& json) {
  require_rope_theta(json);
  const bool silu = json.at("hidden_act").string() == "silu";  // as of 1bitLLM's models
  TransformerConfig config = read_target_config(json, defaults, {.activation = silu ? "silu" : "relu2"});
  for (const char* field : {"attention_bias", "mlp_bias"}) {
    refuse_if_set(json, field, "is not implemented; BitNet has no biases");
  }
  config.activation = silu ? Activation::silu : Activation::relu2;
  config.sub_norms = true;
  set_window(json, AttentionCache::everything, config);
  return config;
}

constexpr ArchitectureName names[] = {{"bitnet", "BitNetForCausalLM"}};

}  // namespace

const Architecture bitnet_architecture = {.names = names, .describe = describe_model, .load = load_pre_norm_decoder};

}  // namespace draftproof
