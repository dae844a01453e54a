// SPDX-License-Identifier: MIT
// OpenAI's gpt-oss (Hugging Face `gpt_oss`): sliding layers in turn with full ones, a sink in every head, biases
// everywhere, and experts with a clamped SwiGLU. RoPE is yarn whose ramp is not rounded to pairs. Source: transformers,
// models/gpt_oss.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-5};
constexpr DecoderNames tensors = {
    .experts = {.router = "router.weight", .router_bias = "router.bias", .interleaved = true, .transposed = true}};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults);
  require_rope_theta(json);
  const auto bias = json.find("attention_bias");
  const std::vector<bool> sliding = read_sliding(json, config.depth(), 2);
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    auto& attention = std::get<AttentionLayer>(config.layers[i].mixer);
    attention.qkv_bias = !bias || bias->boolean();
    attention.output_bias = attention.qkv_bias;
    attention.sinks = true;
    attention.window = AttentionCache::everything;
    if (!sliding[i]) continue;
    json.at("sliding_window");
    attention.window = read_window(json);
  }
  config.activation = Activation::clamped_swiglu;
  if (json.find("swiglu_alpha")) config.swiglu.alpha = read_factor(json, "swiglu_alpha");
  if (json.find("swiglu_limit")) config.swiglu.limit = read_factor(json, "swiglu_limit");
  Experts experts = read_experts(json, "intermediate_size");
  experts.router_bias = true;
  experts.bias = true;
  experts.normalized = true;
  put_sparse_experts(json, experts, config);
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_pre_norm_decoder(from, config, tensors);
}

constexpr ArchitectureName names[] = {{"gpt_oss", "GptOssForCausalLM"}};

}  // namespace

const Architecture gpt_oss_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
