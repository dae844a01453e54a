// SPDX-License-Identifier: MIT
// Gemma 2 and 3.
#include "ref/formats/gguf/gemma.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace draftproof {

using nlohmann::ordered_json;

void put_gemma(const GgufKeys& keys, ordered_json& config) {
  config.erase("hidden_act");
  config["hidden_activation"] = "gelu_pytorch_tanh";
  if (const auto window = keys.find_size("attention.sliding_window")) config["sliding_window"] = *window;
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (const auto cap = keys.find_number(name)) config[name] = *cap;
  }
  if (keys.listed("attention.sliding_window_pattern")) {
    put_sliding_layers(keys, config);
  } else if (const auto period = keys.find_size("attention.sliding_window_pattern")) {
    config["sliding_window_pattern"] = *period;
  }
}

std::int64_t put_gemma_layers(const GgufKeys& keys, ordered_json& config) {
  // Files have these as integers or as floats.
  const auto count = [&](const char* key, std::int64_t max) {
    const double stated = keys.find_number(key).value_or(0);
    if (!(stated >= 0 && stated <= static_cast<double>(max))) {
      keys.fail(key, "must be between 0 and " + std::to_string(max));
    }
    return static_cast<std::int64_t>(stated);
  };
  const std::int64_t shared = count("attention.shared_kv_layers", keys.layers());
  config["num_kv_shared_layers"] = shared;
  config["hidden_size_per_layer_input"] = count("embedding_length_per_layer_input", 1 << 24);
  return shared;
}

const GgufModel::Attention* find_attention(const GgufModel& model, bool slides) {
  const GgufModel::Attention* found = nullptr;
  for (const GgufModel::Layer& layer : model.layers) {
    if (layer.slides() == slides) found = &*layer.attention;
  }
  return found;
}

void write_gemma_layers(const GgufModel& model, GgufKeyWriter& keys) {
  std::vector<std::int32_t> kv_heads;
  std::vector<std::int32_t> intermediates;
  for (const GgufModel::Layer& layer : model.layers) {
    kv_heads.push_back(layer.attention->kv_heads);
    intermediates.push_back(layer.intermediate);
  }
  const GgufModel::Attention* const windowed = find_attention(model, true);
  const GgufModel::Attention* const full = find_attention(model, false);
  const GgufModel::Attention& attention = full != nullptr ? *full : *windowed;
  keys.size("block_count", model.depth());
  keys.size("context_length", model.context);
  keys.size("embedding_length", model.hidden);
  keys.size("vocab_size", model.vocabulary);
  keys.number("attention.layer_norm_rms_epsilon", model.epsilon);
  keys.size("attention.head_count", attention.heads);
  keys.one_or_all("attention.head_count_kv", kv_heads);
  keys.one_or_all("feed_forward_length", intermediates);
  write_sliding_layers(model, keys);
  keys.size("attention.shared_kv_layers", model.shared_layers);
  keys.size("embedding_length_per_layer_input", model.layer_embedding);
  for (const char* name : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    keys.size(name, attention.head_dim);
  }
  keys.number("rope.freq_base", model.ropes[0].theta);
  if (windowed != nullptr) {
    keys.size("attention.sliding_window", windowed->window);
    keys.number("rope.freq_base_swa", model.ropes[1].theta);
  }
  if (model.logit_cap != 0) keys.number("final_logit_softcapping", model.logit_cap);
}

namespace {

constexpr int layers_of_largest_gemma2 = 46;
constexpr int layers_of_largest_gemma3 = 62;

/// The converter adds 1 to the weights of norms. The scale of scores has no key: llama.cpp tells the size of the model
/// by its layers, and the largest one divides by the square root of hidden / heads.
void put_older_gemma(const GgufKeys& keys, ordered_json& config, std::int64_t layers_of_largest) {
  refuse_experts(keys, config);
  put_gemma(keys, config);
  config["norm_offset"] = 0;
  const auto number = [&](const char* field) { return config[field].get<std::int64_t>(); };
  const bool largest = number("num_hidden_layers") == layers_of_largest;
  config["query_pre_attn_scalar"] =
      largest ? static_cast<double>(number("hidden_size")) / static_cast<double>(number("num_attention_heads"))
              : static_cast<double>(number("head_dim"));
}

void put_gemma2(const GgufKeys& keys, ordered_json& config) { put_older_gemma(keys, config, layers_of_largest_gemma2); }

void put_gemma3(const GgufKeys& keys, ordered_json& config) {
  put_older_gemma(keys, config, layers_of_largest_gemma3);
  config["rope_local_base_freq"] = keys.find_number("rope.freq_base_swa").value_or(10000.0);
}

Json read_gemma2(const Gguf& file) {
  return read_gguf_target(file, {"gemma2", "Gemma2ForCausalLM", gemma_keys, {}, put_gemma2});
}
Json read_gemma3(const Gguf& file) {
  return read_gguf_target(file, {"gemma3_text", "Gemma3ForCausalLM", gemma_keys, {}, put_gemma3});
}

/// How many layers it takes until the first one that does not slide: every so many do not.
std::size_t period_of(const GgufModel& model) {
  const auto first = std::ranges::find_if_not(model.layers, &GgufModel::Layer::slides);
  const auto period = static_cast<std::size_t>(first - model.layers.begin()) + 1;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (model.layers[i].slides() == ((i + 1) % period == 0)) {
      model.config.fail("has layers with and without a sliding window in an order that a GGUF cannot hold");
    }
  }
  return period;
}

void refuse_other_scale(const GgufModel& model, int layers_of_largest, const std::string& architecture) {
  const GgufModel::Attention& attention = *model.layers[0].attention;
  const bool largest = model.depth() == layers_of_largest;
  const double divisor = largest ? static_cast<double>(model.hidden) / attention.heads : attention.head_dim;
  if (attention.scale == static_cast<float>(1 / std::sqrt(divisor))) return;
  char text[32];
  const std::string wanted(text, std::to_chars(text, std::end(text), divisor).ptr);
  const Json named = model.config.find("query_pre_attn_scalar").value_or(model.config);
  named.fail("must be " + wanted + " in a GGUF of " + architecture);
}

/// llama.cpp has a fixed order of windows.
void write_gemma2(const GgufModel& model, GgufKeyWriter& keys) {
  write_transformer(model, keys);
  refuse_other_scale(model, layers_of_largest_gemma2, keys.architecture());
  const GgufModel::Attention& attention = *model.layers[0].attention;
  if (attention.cap == 0 || model.logit_cap == 0) {
    model.config.fail("must cap scores and logits in a GGUF of gemma2");
  }
  const std::size_t period = period_of(model);
  if (period != 2 && model.depth() > 1) {
    model.config.fail("must have a window in every other layer, the first one");
  }
  keys.size("attention.sliding_window", attention.window);
  keys.number("attn_logit_softcapping", attention.cap);
  keys.number("final_logit_softcapping", model.logit_cap);
}

void write_gemma3(const GgufModel& model, GgufKeyWriter& keys) {
  write_transformer(model, keys);
  refuse_other_scale(model, layers_of_largest_gemma3, keys.architecture());
  const std::size_t period = period_of(model);
  keys.size("attention.sliding_window", model.layers[0].attention->window);
  keys.size("attention.sliding_window_pattern", static_cast<std::int64_t>(period));
  if (model.logit_cap != 0) keys.number("final_logit_softcapping", model.logit_cap);
  keys.number("rope.freq_base_swa", model.ropes[1].theta);
}

constexpr const char* gemma2_types[] = {"gemma2"};
constexpr const char* gemma3_types[] = {"gemma3", "gemma3_text"};
constexpr GgufNames names = {.whole = transformer_whole, .layer = gemma_layer};

}  // namespace

const GgufFamily gguf_gemma2 = {"gemma2", gemma2_types, names, read_gemma2, write_gemma2};
const GgufFamily gguf_gemma3 = {"gemma3", gemma3_types, names, read_gemma3, write_gemma3};

}  // namespace draftproof
