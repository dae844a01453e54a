// SPDX-License-Identifier: MIT
// Gemma 3, the text model: full attention in every sixth layer and a sliding window in the others, each kind with a
// RoPE of its own; q and k are normalized head by head.
#include "ref/models/decoder.h"
#include "ref/models/gemma.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

// Those of transformers' Gemma3TextConfig.
constexpr Defaults defaults = {
    .vocabulary = 262208, .context = 131072, .heads = 8, .kv_heads = 4, .head_dim = 256, .epsilon = 1e-6};
constexpr int default_window = 4096;
constexpr int default_period = 6;
constexpr LayerTypeRope full_rope = {"full_attention", "rope_theta", 1e6, true};
constexpr LayerTypeRope sliding_rope = {"sliding_attention", "rope_local_base_freq", 1e4, false};

/// Of a text model, or of a multimodal one, whose published configs leave out what is a default of transformers.
TransformerConfig describe_model(const Json& whole) {
  const Json json = text_config(whole);
  require_model_type(json, {"gemma3", "gemma3_text"});
  TransformerConfig config = read_gemma_config(json, defaults, 0);
  refuse_if_set(json, "use_bidirectional_attention", "rows that see later rows cannot generate text");
  if (const auto cap = json.find("attn_logit_softcapping")) cap->fail("is not implemented; Gemma 3 caps no scores");
  config.norm_offset = read_norm_offset(json);
  config.unused = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."};
  AttentionLayer attention;
  attention.shape = read_attention_shape(json, config.hidden, defaults);
  attention.shape.scale = read_score_scale(json);
  attention.qk_norm = QkNorm::heads;
  config.ropes = {read_rope(json, attention.shape.head_dim, full_rope),
                  read_rope(json, attention.shape.head_dim, sliding_rope)};
  const int window = read_gemma_window(json, default_window);
  const int intermediate = positive(json, "intermediate_size");
  const std::vector<bool> sliding =
      read_sliding(json, config.depth(), positive(json, "sliding_window_pattern", default_period));
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    attention.window = sliding[i] ? window : AttentionCache::everything;
    attention.rope = sliding[i] ? 1 : 0;
    config.layers[i].mixer = attention;
    config.layers[i].intermediate = intermediate;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_sandwich_decoder(from, config, gemma_names);
}

constexpr ArchitectureName names[] = {
    {"gemma3_text", "Gemma3ForCausalLM"},
    {"gemma3", "Gemma3ForConditionalGeneration"},
};

}  // namespace

const Architecture gemma3_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
