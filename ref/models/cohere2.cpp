// SPDX-License-Identifier: MIT
// Cohere's Command R7B and A (Hugging Face `cohere2`): attention and MLP read the same norm, which subtracts the mean;
// full layers among sliding ones do not turn q and k, sliding ones turn neighboring values; scaled logits. Source:
// transformers, models/cohere2.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

// Those of transformers' Cohere2Config.
constexpr float default_logit_scale = 0.0625F;
constexpr int default_window = 4096;
constexpr int default_period = 4;
constexpr Defaults defaults = {.epsilon = 1e-5, .epsilon_field = "layer_norm_eps"};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_uniform_layers(json, defaults, {.multipliers = true});
  for (const char* other : {"logits_scaling", "residual_multiplier", "embedding_multiplier", "attention_multiplier"}) {
    if (const auto factor = json.find(other)) factor->fail("is not implemented; Cohere 2 has logit_scale");
  }
  refuse_if_set(json, "use_qk_norm", "is not implemented; Cohere 2 normalizes neither q nor k");
  config.norm = Norm::layer;
  config.logit_scale = json.find("logit_scale") ? read_factor(json, "logit_scale") : default_logit_scale;
  config.ropes = {read_rope(json, config.attention(0).shape.head_dim)};
  const int window = json.find("sliding_window") ? read_window(json) : default_window;
  const int period = positive(json, "sliding_window_pattern", default_period);
  const std::vector<bool> sliding = read_sliding(json, config.depth(), period);
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    auto& attention = std::get<AttentionLayer>(config.layers[i].mixer);
    attention.window = sliding[i] ? window : AttentionCache::everything;
    attention.rope = sliding[i] ? 0 : AttentionLayer::no_rope;
    attention.interleaved = true;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_parallel_decoder(from, config, {});
}

constexpr ArchitectureName names[] = {{"cohere2", "Cohere2ForCausalLM"}};

}  // namespace

const Architecture cohere2_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
