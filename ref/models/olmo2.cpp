// SPDX-License-Identifier: MIT
// OLMo 2 and 3 (Hugging Face `olmo2`, `olmo3`): norms behind attention and MLP, none before; q and k normalized, all
// heads together. Three of four layers of OLMo 3 slide, with a RoPE of their own, which rope_scaling does not mean.
// Source: transformers, models/olmo2 and models/olmo3.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

// Those of transformers' Olmo2Config and Olmo3Config.
constexpr double default_theta = 500000;
constexpr int default_window = 4096;
constexpr int default_period = 4;
constexpr Defaults defaults = {.epsilon = 1e-5};
constexpr LayerTypeRope full_rope = {"full_attention", "rope_theta", default_theta, true};
constexpr LayerTypeRope sliding_rope = {"sliding_attention", "rope_theta", default_theta, false};

TransformerConfig describe_olmo2(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults);
  set_window(json, AttentionCache::everything, config);
  set_qk_norm(QkNorm::whole, config);
  return config;
}

TransformerConfig describe_olmo3(const Json& json) {
  TransformerConfig config = read_uniform_layers(json, defaults);
  const int head_dim = config.attention(0).shape.head_dim;
  const auto block = json.find("rope_parameters");
  const bool by_type = !block || block->find("full_attention") || block->find("sliding_attention");
  config.ropes = by_type ? std::vector{read_rope(json, head_dim, full_rope), read_rope(json, head_dim, sliding_rope)}
                         : std::vector{read_rope(json, head_dim), read_rope(json, head_dim)};
  set_qk_norm(QkNorm::whole, config);
  const int window = json.find("sliding_window") ? read_window(json) : default_window;
  const std::vector<bool> sliding = read_sliding(json, config.depth(), default_period);
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    auto& attention = std::get<AttentionLayer>(config.layers[i].mixer);
    attention.window = sliding[i] ? window : AttentionCache::everything;
    attention.rope = sliding[i] ? 1 : 0;
  }
  return config;
}

TransformerConfig describe_model(const Json& json) {
  return json.at("model_type").string() == "olmo3" ? describe_olmo3(json) : describe_olmo2(json);
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_post_norm_decoder(from, config, {});
}

constexpr ArchitectureName names[] = {{"olmo2", "Olmo2ForCausalLM"}, {"olmo3", "Olmo3ForCausalLM"}};

}  // namespace

const Architecture olmo2_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
