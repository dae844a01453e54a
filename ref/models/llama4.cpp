// SPDX-License-Identifier: MIT
// The text model of Llama 4 (Hugging Face `llama4_text`, alone or within `llama4`). Layers that turn q and k, neighbors
// together, see the chunk of the text that they are in, and normalize each head of q and k without weights: behind
// RoPE, which is the same as before. The others see everything, and their queries grow. Experts, in some layers, read
// the row times the sigmoid of their logit, beside a shared one. Source: transformers, models/llama4.
#include <algorithm>

#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

// Those of transformers' Llama4TextConfig.
constexpr int default_interval = 4;
constexpr int default_chunk = 8192;
constexpr int default_step = 8192;
constexpr double default_beta = 0.1;
constexpr Defaults defaults = {.head_dim = 128, .epsilon = 1e-5};
constexpr DecoderNames tensors = {.mlp_block = "feed_forward.",
                                  .experts_block = "feed_forward.",
                                  .experts = {.router = "router.weight", .transposed = true}};

bool says(const Json& config, const char* field, bool absent) {
  const auto value = config.find(field);
  if (!value) return absent;
  return value->is_boolean() ? value->boolean() : value->integer(0, 1 << 20) != 0;  // early configs have a number
}

QueryGrowth read_growth(const Json& text) {
  if (!says(text, "attn_temperature_tuning", true)) return {};
  const auto beta = text.find("attn_scale");
  const auto step = text.find("floor_scale");
  if (beta && !(beta->number() >= 0 && beta->number() <= 1)) beta->fail("must lie between 0 and 1");
  return {.beta = beta ? beta->number() : default_beta,
          .step = step ? step->integer(1, 1 << 30) : default_step,
          .ahead = 1};
}

/// Whether RoPE turns q and k of each layer.
std::vector<bool> read_turned(const Json& text, int layers) {
  std::vector<bool> turned;
  const auto listed = text.find("no_rope_layers");
  if (!listed || listed->size() == 0) {
    const int interval = positive(text, "no_rope_layer_interval", default_interval);
    for (int i = 0; i < layers; ++i) turned.push_back((i + 1) % interval != 0);
    return turned;
  }
  for (const std::int64_t turns : listed->integers(0, 1)) turned.push_back(turns == 1);
  if (turned.size() < static_cast<std::size_t>(layers)) {
    listed->fail("must have a number for each of the " + std::to_string(layers) + " layers");
  }
  return turned;
}

/// The chunk that layers see which `turn`, or what layer_types says.
int read_chunk(const Json& text, int layer, bool turn) {
  const bool null = text.has("attention_chunk_size") && !text.find("attention_chunk_size");
  const int chunk = positive(text, "attention_chunk_size", default_chunk);
  const auto types = text.find("layer_types");
  if (!types) return turn && !null ? chunk : AttentionCache::everything;
  const Json type = (*types)[static_cast<std::size_t>(layer)];
  if (type.string() == "full_attention") return AttentionCache::everything;
  if (type.string() != "chunked_attention") type.fail("layer type '" + type.string() + "' is not implemented");
  if (null) type.fail("asks for chunks, but attention_chunk_size is null");
  return chunk;
}

/// Gives experts to the layers that moe_layers lists, or else to every interleave_moe_layer_step-th one.
void put_experts(const Json& text, TransformerConfig& to) {
  Experts experts = read_experts(text, "intermediate_size");
  experts.scores = RouterScores::sigmoid;
  experts.weighted_inputs = true;
  experts.shared = experts.intermediate;
  experts.shared_gate = false;
  const int step = positive(text, "interleave_moe_layer_step", 1);
  const auto listed = text.find("moe_layers");
  std::vector<std::int64_t> with;
  if (listed) with = listed->integers(0, to.depth() - 1);
  const int dense = positive(text, "intermediate_size_mlp");
  for (int i = 0; i < to.depth(); ++i) {
    LayerConfig& layer = to.layers[static_cast<std::size_t>(i)];
    const bool mixes = listed ? std::ranges::find(with, i) != with.end() : (i + 1) % step == 0;
    layer.intermediate = mixes ? 0 : dense;
    if (mixes) layer.experts = experts;
  }
}

TransformerConfig describe_text(const Json& text) {
  TransformerConfig config = read_uniform_layers(text, defaults);
  refuse_if_set(text, "final_logit_softcapping", "soft-capped logits are not implemented");
  refuse_partial_rotary(text);
  require_rope_theta(text);
  config.ropes = {read_rope(text, config.attention(0).shape.head_dim)};
  if (config.ropes[0].factor != 1) {  // norms behind RoPE take it away again
    text.fail("has RoPE of kind '" + config.ropes[0].kind + "', which is not implemented");
  }
  const QueryGrowth growth = read_growth(text);
  const auto types = text.find("layer_types");
  if (types && (!types->is_array() || types->size() != config.layers.size())) {
    types->fail("must list one type for each of the " + std::to_string(config.depth()) + " layers");
  }
  const std::vector<bool> turned = read_turned(text, config.depth());
  const bool normed = says(text, "use_qk_norm", true);
  for (int i = 0; i < config.depth(); ++i) {
    auto& attention = std::get<AttentionLayer>(config.layers[static_cast<std::size_t>(i)].mixer);
    const bool turns = turned[static_cast<std::size_t>(i)];
    attention.interleaved = true;
    if (!turns) {
      attention.rope = AttentionLayer::no_rope;
      attention.growth = growth;
    }
    if (turns && normed) attention.qk_norm = QkNorm::plain_heads;
    attention.window = read_chunk(text, i, turns);
    attention.chunked = attention.window != AttentionCache::everything;
  }
  put_experts(text, config);
  return config;
}

TransformerConfig describe_model(const Json& json) {
  const Json text = text_config(json);
  const Json type = text.at("model_type");
  if (type.string() != "llama4_text") type.fail("is not implemented as the text part; only 'llama4_text' is");
  TransformerConfig config = describe_text(text);
  config.unused = {"vision_model.", "multi_modal_projector.", "model.vision_model.", "model.multi_modal_projector."};
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_pre_norm_decoder(from, config, tensors);
}

constexpr ArchitectureName names[] = {{"llama4_text", "Llama4ForCausalLM"},
                                      {"llama4", "Llama4ForConditionalGeneration"}};

}  // namespace

const Architecture llama4_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
