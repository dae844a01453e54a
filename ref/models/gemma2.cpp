// SPDX-License-Identifier: MIT
// Gemma 2: full attention in every second layer and a sliding window in the others, capped scores and logits.
#include "ref/models/decoder.h"
#include "ref/models/gemma.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

// Those of transformers' Gemma2Config.
constexpr Defaults defaults = {
    .vocabulary = 256000, .context = 8192, .heads = 8, .kv_heads = 4, .head_dim = 256, .epsilon = 1e-6};
constexpr int default_window = 4096;
constexpr float default_score_cap = 50;
constexpr float default_logit_cap = 30;

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_gemma_config(json, defaults, default_logit_cap);
  refuse_if_set(json, "use_bidirectional_attention", "rows that see later rows cannot generate text");
  config.norm_offset = read_norm_offset(json);
  AttentionLayer attention;
  attention.shape = read_attention_shape(json, config.hidden, defaults);
  attention.shape.scale = read_score_scale(json);
  attention.shape.cap = read_cap(json, "attn_logit_softcapping", default_score_cap);
  config.ropes = {read_rope(json, attention.shape.head_dim)};
  const int window = read_gemma_window(json, default_window);
  const int intermediate = positive(json, "intermediate_size");
  const std::vector<bool> sliding = read_sliding(json, config.depth(), 2);
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    attention.window = sliding[i] ? window : AttentionCache::everything;
    config.layers[i].mixer = attention;
    config.layers[i].intermediate = intermediate;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_sandwich_decoder(from, config, gemma_names);
}

constexpr ArchitectureName names[] = {{"gemma2", "Gemma2ForCausalLM"}};

}  // namespace

const Architecture gemma2_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
