// SPDX-License-Identifier: MIT
// EXAONE 4 (Hugging Face `exaone4`): norms behind attention and MLP, none before; heads of q and k normalized. Where
// there is a sliding_window, the full layers among the sliding ones do not turn q and k. Source: transformers,
// models/exaone4.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr int default_period = 4;  // transformers' Exaone4Config

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_uniform_layers(json, {.kv_heads = 32, .epsilon = 1e-5});
  refuse_if_set(json, "attention_bias", "is not implemented; EXAONE 4 has no biases");
  config.ropes = {read_rope(json, config.attention(0).shape.head_dim)};
  set_qk_norm(QkNorm::heads, config);
  if (!json.find("sliding_window")) {
    set_window(json, AttentionCache::everything, config);
    return config;
  }
  const auto pattern = json.find("sliding_window_pattern");
  const bool listed = json.find("layer_types").has_value() || (pattern && pattern->is_string());
  const int period = listed ? 1 : positive(json, "sliding_window_pattern", default_period);
  std::vector<bool> sliding;
  if (json.find("layer_types") || !listed) sliding = read_sliding(json, config.depth(), period);
  for (std::size_t i = sliding.size(); i < config.layers.size(); ++i) {  // as in LLLG, for each layer a letter
    const std::string& letters = pattern->string();
    if (letters.empty()) pattern->fail("must not be empty");
    sliding.push_back(letters[i % letters.size()] == 'L');
  }
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    auto& attention = std::get<AttentionLayer>(config.layers[i].mixer);
    attention.window = sliding[i] ? read_window(json) : AttentionCache::everything;
    if (!sliding[i]) attention.rope = AttentionLayer::no_rope;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_post_norm_decoder(from, config, {});
}

constexpr ArchitectureName names[] = {{"exaone4", "Exaone4ForCausalLM"}};

}  // namespace

const Architecture exaone4_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
