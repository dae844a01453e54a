// SPDX-License-Identifier: MIT
#include "ref/models/transformer_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include "kernels/math64.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr int size_max = 1 << 24;              // no width of a real checkpoint comes near it
constexpr int layers_max = 1 << 10;            // nor any number of layers
constexpr int mtp_heads_max = 64;              // nor of MTP heads
constexpr int default_max_window_layers = 28;  // transformers' Qwen3Config: so many layers see everything

}  // namespace

float QueryGrowth::at(int position) const {
  return static_cast<float>(1 + beta * log64(static_cast<double>(1 + (std::int64_t{position} + ahead) / step)));
}

const AttentionLayer& TransformerConfig::attention(int layer) const {
  const auto* const found = std::get_if<AttentionLayer>(&layers.at(static_cast<std::size_t>(layer)).mixer);
  REQUIRE(found != nullptr, "the layer has attention");
  return *found;
}

std::optional<ConvolvedSizes> recurrent_sizes(const LayerConfig& layer) noexcept {
  if (const auto* const shape = std::get_if<RecurrentShape>(&layer.mixer)) return sizes_of(*shape);
  if (const auto* const shape = std::get_if<ConvolutionShape>(&layer.mixer)) return sizes_of(*shape);
  if (const auto* const shape = std::get_if<SelectiveScanShape>(&layer.mixer)) return sizes_of(*shape);
  if (const auto* const shape = find_state_space(layer)) return sizes_of(*shape);
  return std::nullopt;
}

const StateSpaceShape* find_state_space(const LayerConfig& layer) noexcept {
  return layer.beside ? &*layer.beside : std::get_if<StateSpaceShape>(&layer.mixer);
}

Json text_config(const Json& config) { return config.find("text_config").value_or(config); }

int TransformerConfig::cached_layers() const noexcept {
  const auto first = std::ranges::find_if(layers, [](const LayerConfig& layer) {
    const auto* const attention = std::get_if<AttentionLayer>(&layer.mixer);
    return attention != nullptr && attention->donor != AttentionLayer::own;
  });
  return static_cast<int>(first - layers.begin());
}

int TransformerConfig::cache_of(int layer) const noexcept {
  int place = 0;
  for (const LayerConfig& before : std::span(layers).first(static_cast<std::size_t>(layer))) {
    if (!std::holds_alternative<NoMixer>(before.mixer)) ++place;
    if (before.beside) ++place;
  }
  return place;
}

int positive(const Json& config, std::string_view field, std::optional<int> default_value) {
  if (default_value && !config.find(field)) return *default_value;
  return static_cast<int>(config.at(field).integer(1, size_max));
}

void refuse_if_set(const Json& config, std::string_view field, const std::string& why) {
  const auto value = config.find(field);
  if (!value) return;
  if (value->is_boolean() && !value->boolean()) return;
  value->fail(why);
}

void require_activation(const Json& config, std::string_view field, const std::string& name) {
  if (const auto act = config.find(field); act && act->string() != name) {
    act->fail("activation '" + act->string() + "' is not implemented; only '" + name + "' is");
  }
}

void require_rope_theta(const Json& config) {
  const auto block = config.find("rope_parameters");
  if (!block || !block->find("rope_theta")) config.at("rope_theta");
}

void refuse_partial_rotary(const Json& config) {
  const auto refuse = [](const Json& block) {
    const auto factor = block.find("partial_rotary_factor");
    if (factor && factor->number() != 1) factor->fail("partial rotary embedding is not implemented");
  };
  refuse(config);
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    if (const auto block = config.find(field); block && block->is_object()) refuse(*block);
  }
}

float read_factor(const Json& config, std::string_view field) {
  const auto value = config.find(field);
  if (!value) return 1;
  const auto factor = static_cast<float>(value->number());
  if (!(factor > 0 && factor <= std::numeric_limits<float>::max())) value->fail("must be a positive float");
  return factor;
}

int read_rotary_width(const Json& config, int head_dim) {
  std::optional<Json> part;
  for (const Json& block :
       {config, config.find("rope_scaling").value_or(config), config.find("rope_parameters").value_or(config)}) {
    const auto found = block.find("partial_rotary_factor");
    if (part && found && part->number() != found->number()) {
      found->fail("differs from another partial_rotary_factor of this config");
    }
    if (found) part = found;
  }
  if (!part) return head_dim;
  const double width = part->number() * head_dim;
  if (!(width >= 2 && width <= head_dim)) part->fail("must turn between 2 and " + std::to_string(head_dim) + " values");
  return static_cast<int>(width) / 2 * 2;
}

TransformerConfig read_sizes(const Json& config, const Defaults& defaults, const Features& features) {
  if (!config.is_object()) config.fail("must be a JSON object");
  TransformerConfig result;
  result.vocabulary = positive(config, "vocab_size", defaults.vocabulary);
  result.hidden = positive(config, "hidden_size");
  const auto layers = defaults.layers ? config.find("num_hidden_layers") : config.at("num_hidden_layers");
  result.layers.resize(static_cast<std::size_t>(layers ? layers->integer(1, layers_max) : *defaults.layers));
  result.context = positive(config, "max_position_embeddings", defaults.context);
  const char* const name = defaults.epsilon_field;
  const auto epsilon = config.find(name);
  result.epsilon = static_cast<float>(defaults.epsilon && !epsilon ? *defaults.epsilon : config.at(name).number());
  if (!(result.epsilon > 0 && result.epsilon < 1)) {  // as a float: 1e-60 would be 0, and a row of zeros NaN
    config.at(name).fail("must lie between 0 and 1 as a float");
  }
  refuse_if_set(config, "rope_interleaved", "interleaved RoPE is not implemented");
  for (const char* field : {"rope_is_neox_style", "is_neox_style"}) {
    if (const auto neox = config.find(field); neox && !neox->boolean())
      neox->fail("interleaved RoPE is not implemented");
  }
  for (const char* field :
       {"logit_scale", "logits_scaling", "residual_multiplier", "embedding_multiplier", "attention_multiplier"}) {
    if (features.multipliers) break;
    if (const auto factor = config.find(field); factor && factor->number() != 1) factor->fail("is not implemented");
  }
  for (const char* field : {"num_nextn_predict_layers", "mtp_num_hidden_layers"}) {
    if (const auto heads = config.find(field)) result.mtp_heads = static_cast<int>(heads->integer(0, mtp_heads_max));
  }
  for (int i = 0; i < result.mtp_heads; ++i) {  // most files have them behind the layers of the model
    result.unused.push_back("model.layers." + std::to_string(result.depth() + i) + ".");
  }
  return result;
}

AttentionShape read_attention_shape(const Json& config, int hidden, const Defaults& defaults) {
  AttentionShape shape = {};
  shape.heads = positive(config, "num_attention_heads", defaults.heads);
  shape.kv_heads = positive(config, "num_key_value_heads", defaults.kv_heads.value_or(shape.heads));
  if (shape.heads % shape.kv_heads != 0) {
    const auto told = config.find("num_key_value_heads");
    if (told) told->fail("must divide the number of heads, " + std::to_string(shape.heads));
    config.at("num_attention_heads").fail("must be a multiple of that of KV heads, " + std::to_string(shape.kv_heads));
  }
  if (config.find("head_dim") || defaults.head_dim) {
    shape.head_dim = positive(config, "head_dim", defaults.head_dim);
  } else {
    if (hidden % shape.heads != 0) config.fail("hidden_size is no multiple of num_attention_heads; set head_dim");
    shape.head_dim = hidden / shape.heads;
  }
  if (shape.head_dim % 2 != 0) {
    const std::string size = std::to_string(shape.head_dim);
    config.find("head_dim")
        .value_or(config.at("hidden_size"))
        .fail("makes heads of " + size + " values, but the number must be even; RoPE turns pairs");
  }
  if (static_cast<std::int64_t>(shape.heads) * shape.head_dim > size_max) {
    config.find("num_attention_heads").value_or(config).fail("makes all heads together larger than any real model's");
  }
  shape.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  return shape;
}

std::vector<int> read_windows(const Json& config, int layers) {
  std::vector<int> windows(static_cast<std::size_t>(layers), AttentionCache::everything);
  const auto use = config.find("use_sliding_window");
  const auto width = config.find("sliding_window");
  const auto sliding = [&](const Json& asked_by) {
    if (!width) asked_by.fail("asks for sliding attention, but sliding_window is absent");
    return read_window(config);
  };
  if (const auto types = config.find("layer_types")) {
    if (!types->is_array() || types->size() != windows.size()) {
      types->fail("must list one type for each of the " + std::to_string(layers) + " layers");
    }
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const Json type = (*types)[i];
      if (type.string() == "sliding_attention") {
        if (use && !use->boolean()) type.fail("is sliding_attention, but use_sliding_window is false");
        windows[i] = sliding(type);
      } else if (type.string() != "full_attention") {
        type.fail("layer type '" + type.string() + "' is not implemented");
      }
    }
  } else if (use && use->boolean()) {
    const auto first = config.find("max_window_layers");
    const int from = first ? static_cast<int>(first->integer(0, size_max)) : default_max_window_layers;
    for (int i = from; i < layers; ++i) windows[i] = sliding(*use);
  }
  return windows;
}

int read_window(const Json& config) {
  const auto width = config.find("sliding_window");
  if (!width) return AttentionCache::everything;
  return static_cast<int>(std::min<std::int64_t>(width->integer(1, std::int64_t{1} << 40), size_max));
}

void set_window(const Json& config, int window, TransformerConfig& of) {
  const std::string kind = window == AttentionCache::everything ? "full_attention" : "sliding_attention";
  if (const auto types = config.find("layer_types")) {
    for (std::size_t i = 0; i < types->size(); ++i) {
      const Json type = (*types)[i];
      if (type.string() != kind) type.fail("must be " + kind + "; layers of two kinds are not implemented");
    }
  }
  for (LayerConfig& layer : of.layers) std::get<AttentionLayer>(layer.mixer).window = window;
}

std::vector<bool> read_sliding(const Json& config, int layers, int period) {
  std::vector<bool> sliding;
  const auto types = config.find("layer_types");
  if (!types) {
    for (int i = 0; i < layers; ++i) sliding.push_back((i + 1) % period != 0);
    return sliding;
  }
  if (!types->is_array() || types->size() != static_cast<std::size_t>(layers)) {
    types->fail("must list one type for each of the " + std::to_string(layers) + " layers");
  }
  for (std::size_t i = 0; i < types->size(); ++i) {
    const Json type = (*types)[i];
    sliding.push_back(type.string() == "sliding_attention");
    if (!sliding.back() && type.string() != "full_attention") {
      type.fail("layer type '" + type.string() + "' is not part of this architecture");
    }
  }
  return sliding;
}

void set_qk_norm(QkNorm norm, TransformerConfig& of) {
  for (LayerConfig& layer : of.layers) std::get<AttentionLayer>(layer.mixer).qk_norm = norm;
}

TransformerConfig read_uniform_layers(const Json& config, const Defaults& defaults, const Features& features) {
  TransformerConfig result = read_sizes(config, defaults, features);
  const AttentionShape shape = read_attention_shape(config, result.hidden, defaults);
  const int intermediate = positive(config, "intermediate_size");
  config.at("hidden_act");
  require_activation(config, "hidden_act", features.activation);
  if (!features.partial_rotary) refuse_partial_rotary(config);
  const auto said = [&](const char* field) {
    const auto value = config.find(field);
    return value && value->boolean();
  };
  const bool bias = said("attention_bias");
  for (LayerConfig& layer : result.layers) {
    layer.mixer = AttentionLayer{.shape = shape, .qkv_bias = bias, .output_bias = bias};
    layer.intermediate = intermediate;
    layer.mlp_bias = said("mlp_bias");
  }
  return result;
}

TransformerConfig read_transformer_config(const Json& config, const Defaults& defaults, const Features& features) {
  TransformerConfig result = read_uniform_layers(config, defaults, features);
  result.ropes = {read_rope(config, read_rotary_width(config, result.attention(0).shape.head_dim))};
  const std::vector<int> windows = read_windows(config, result.depth());
  for (std::size_t i = 0; i < windows.size(); ++i) {
    std::get<AttentionLayer>(result.layers[i].mixer).window = windows[i];
  }
  limit_context(result);
  return result;
}

void limit_context(TransformerConfig& config) {
  int end = 0;
  for (const Rope& rope : config.ropes) end = std::max(end, rope.context);
  if (end == 0 || config.long_context > 0) return;
  config.long_context = config.context;
  config.context = std::min(config.context, end);
}

TransformerConfig read_target_config(const Json& config, const Defaults& defaults, const Features& features) {
  TransformerConfig result = read_transformer_config(config, defaults, features);
  if (const auto cap = config.find("final_logit_softcapping")) cap->fail("soft-capped logits are not implemented");
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const auto block = config.find(field);
    const auto beta = block ? block->find("llama_4_scaling_beta") : std::nullopt;
    if (beta && beta->number() != 0) beta->fail("query scaling by position is not implemented");
  }
  return result;
}

}  // namespace draftproof
