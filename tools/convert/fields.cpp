// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>

#include "ref/base/error.h"
#include "ref/formats/gguf_names.h"
#include "ref/formats/printable.h"
#include "ref/models/dflash.h"
#include "ref/models/eagle3.h"
#include "ref/models/gemma4_assistant.h"
#include "ref/models/models.h"
#include "ref/models/mtp.h"
#include "ref/models/rope.h"
#include "ref/models/transformer_config.h"
#include "tools/convert/gguf_model.h"

namespace draftproof {
namespace {

struct Name {
  std::string_view model_type;
  const char* gguf;
};

constexpr const char* assistant = "gemma4-assistant";

constexpr Name names[] = {
    {"qwen3", "qwen3"},           {"qwen2", "qwen2"},          {"qwen3_moe", "qwen3moe"},
    {"llama", "llama"},           {"mistral", "llama"},        {"ministral3", "mistral3"},
    {"mistral3", "mistral3"},     {"qwen3_5", "qwen35"},       {"qwen3_5_text", "qwen35"},
    {"qwen3_5_moe", "qwen35moe"}, {"qwen3_5_moe_text", "qwen35moe"}, {"gemma2", "gemma2"},
    {"gemma3", "gemma3"},         {"gemma3_text", "gemma3"},  {"gemma4", "gemma4"},
    {"gemma4_text", "gemma4"},    {"gemma4_unified", "gemma4"}, {"gemma4_unified_text", "gemma4"},
    {"gemma4_assistant", assistant}, {"gemma4_unified_assistant", assistant},
};

constexpr const char* ik_dflash = "dflash-draft";

/// Adds keys "<architecture>.<name>".
class Keys {
 public:
  Keys(const std::string& architecture, GgufFields& fields) : prefix_(architecture + "."), fields_(fields) {}
  void size(const char* name, std::int64_t value) { fields_.size(prefix_ + name, static_cast<std::uint32_t>(value)); }
  void number(const char* name, double value) { fields_.number(prefix_ + name, static_cast<float>(value)); }
  void truth(const char* name, bool value) { fields_.truth(prefix_ + name, value); }
  void text(const char* name, const std::string& value) { fields_.text(prefix_ + name, value); }
  void truths(const char* name, const std::vector<bool>& value) { fields_.truths(prefix_ + name, value); }
  void integers(const char* name, const std::vector<std::int32_t>& value) { fields_.integers(prefix_ + name, value); }
  /// One number when all are the same.
  void one_or_all(const char* name, const std::vector<std::int32_t>& values) {
    if (std::ranges::count(values, values.front()) == std::ssize(values)) size(name, values.front());
    else integers(name, values);
  }

 private:
  std::string prefix_;
  GgufFields& fields_;
};

/// The block that describes how RoPE is scaled; the config itself when it has none.
Json rope_block(const Json& config) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    if (const auto block = config.find(name)) return *block;
  }
  return config;
}

void add_rope(const Json& config, const Rope& rope, Keys& keys) {
  keys.number("rope.freq_base", rope.theta);
  if (rope.kind == "default" || rope.kind == "llama3") return;  // llama3 is a tensor
  keys.text("rope.scaling.type", rope.kind);
  if (rope.kind == "linear") {
    const Rope plain = default_rope(rope.theta, 2 * rope.half());
    keys.number("rope.scaling.factor", double{plain.frequencies[0]} / rope.frequencies[0]);
    return;
  }
  const Json block = rope_block(config);
  const auto factor = block.find("factor");
  if (!factor) block.fail("needs factor, without which a GGUF cannot hold it");
  keys.number("rope.scaling.factor", factor->number());
  for (const char* name : {"attention_factor", "truncate"}) {
    const auto found = block.find(name);
    if (found && !(found->is_boolean() && found->boolean())) found->fail("has no key in a GGUF");
  }
  const auto original = block.find("original_max_position_embeddings");
  keys.size("rope.scaling.original_context_length",
            original ? original->integer(1, 1 << 30) : config.at("max_position_embeddings").integer(1, 1 << 30));
  for (const auto& [field, key] : {std::pair("beta_fast", "rope.scaling.yarn_beta_fast"),
                                   {"beta_slow", "rope.scaling.yarn_beta_slow"},
                                   {"mscale_all_dim", "rope.scaling.yarn_log_multiplier"}}) {
    const auto found = block.find(field);
    if (found && found->number() != 0) keys.number(key, found->number());
  }
  if (const auto mscale = block.find("mscale"); mscale && mscale->number() != 0 && mscale->number() != 1) {
    mscale->fail("must be 1 in a GGUF");
  }
}

void add_experts(const Experts& experts, Keys& keys) {
  keys.size("expert_count", experts.count);
  keys.size("expert_used_count", experts.chosen);
  keys.size("expert_feed_forward_length", experts.intermediate);
  if (experts.shared > 0) keys.size("expert_shared_feed_forward_length", experts.shared);
}

void add_recurrence(const TransformerConfig& config, const RecurrentShape& shape, int heads, Keys& keys) {
  keys.size("ssm.conv_kernel", shape.conv_width);
  keys.size("ssm.state_size", shape.delta.key_dim);
  keys.size("ssm.group_count", shape.delta.key_heads);
  keys.size("ssm.time_step_rank", shape.delta.value_heads);
  keys.size("ssm.inner_size", shape.value_floats());
  std::vector<bool> recurrent;
  for (const LayerConfig& layer : config.layers) {
    recurrent.push_back(std::holds_alternative<RecurrentShape>(layer.mixer));
  }
  const auto first = std::ranges::find(recurrent, false);
  const auto interval = static_cast<std::int64_t>(first - recurrent.begin()) + 1;
  bool regular = true;
  for (std::size_t i = 0; i < recurrent.size(); ++i) {
    regular = regular && recurrent[i] == ((static_cast<std::int64_t>(i) + 1) % interval != 0);
  }
  recurrent.resize(recurrent.size() + static_cast<std::size_t>(heads), false);
  if (regular) keys.size("full_attention_interval", interval);
  else keys.truths("attention.recurrent_layers", recurrent);
}

bool slides(const LayerConfig& layer) {
  return std::get<AttentionLayer>(layer.mixer).window != AttentionCache::everything;
}

/// How many layers it takes until the first one that does not slide: every so many do not.
std::size_t period_of(const Json& json, const TransformerConfig& config) {
  const auto first = std::ranges::find_if_not(config.layers, slides);
  const auto period = static_cast<std::size_t>(first - config.layers.begin()) + 1;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (slides(config.layers[i]) == ((i + 1) % period == 0)) {
      json.fail("has layers with and without a sliding window in an order that a GGUF cannot hold");
    }
  }
  return period;
}

/// llama.cpp has no key for the scale of scores, and a fixed order of the windows of Gemma 2.
void add_gemma(const Json& json, const TransformerConfig& config, const std::string& architecture, Keys& keys) {
  const AttentionLayer& attention = config.attention(0);
  const bool two = architecture == "gemma2";
  const bool largest = config.depth() == (two ? 46 : 62);
  const AttentionShape& shape = attention.shape;
  const double divisor = largest ? static_cast<double>(config.hidden) / shape.heads : shape.head_dim;
  if (shape.scale != static_cast<float>(1 / std::sqrt(divisor))) {
    const Json named = json.find("query_pre_attn_scalar").value_or(json);
    named.fail(fmt::format("must be {} in a GGUF of {}", divisor, architecture));
  }
  if (two && (shape.cap == 0 || config.logit_cap == 0)) json.fail("must cap scores and logits in a GGUF of gemma2");
  const std::size_t period = period_of(json, config);
  if (two && period != 2 && config.depth() > 1) json.fail("must have a window in every other layer, the first one");
  keys.size("attention.sliding_window", attention.window);
  if (two) keys.number("attn_logit_softcapping", shape.cap);
  else keys.size("attention.sliding_window_pattern", static_cast<std::int64_t>(period));
  if (config.logit_cap != 0) keys.number("final_logit_softcapping", config.logit_cap);
  if (!two) keys.number("rope.freq_base_swa", config.ropes[1].theta);
}

/// Layers of full attention and those with a window have heads, RoPE and numbers of KV heads of their own.
void add_gemma4(const TransformerConfig& config, Keys& keys) {
  std::vector<std::int32_t> kv_heads;
  std::vector<std::int32_t> intermediates;
  std::vector<bool> sliding;
  const AttentionLayer* full = nullptr;
  const AttentionLayer* windowed = nullptr;
  for (int i = 0; i < config.depth(); ++i) {
    const AttentionLayer& attention = config.attention(i);
    kv_heads.push_back(attention.shape.kv_heads);
    intermediates.push_back(config.layers[static_cast<std::size_t>(i)].intermediate);
    sliding.push_back(slides(config.layers[static_cast<std::size_t>(i)]));
    (sliding.back() ? windowed : full) = &attention;
  }
  if (full == nullptr) full = windowed;
  keys.size("block_count", config.depth());
  keys.size("context_length", config.context);
  keys.size("embedding_length", config.hidden);
  keys.size("vocab_size", config.vocabulary);
  keys.number("attention.layer_norm_rms_epsilon", config.epsilon);
  keys.size("attention.head_count", full->shape.heads);
  keys.one_or_all("attention.head_count_kv", kv_heads);
  keys.one_or_all("feed_forward_length", intermediates);
  keys.truths("attention.sliding_window_pattern", sliding);
  keys.size("attention.shared_kv_layers", config.depth() - config.cached_layers());
  keys.size("embedding_length_per_layer_input", config.layer_embedding);
  for (const char* name : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    keys.size(name, full->shape.head_dim);
    if (windowed != nullptr) keys.size((std::string(name) + "_swa").c_str(), windowed->shape.head_dim);
  }
  keys.number("rope.freq_base", config.ropes[0].theta);
  if (windowed != nullptr) {
    keys.size("attention.sliding_window", windowed->window);
    keys.number("rope.freq_base_swa", config.ropes[1].theta);
  }
  if (config.logit_cap != 0) keys.number("final_logit_softcapping", config.logit_cap);
  if (config.layers[0].experts.count > 0) add_experts(config.layers[0].experts, keys);
}

/// llama.cpp's graphs of these architectures have neither a window nor layers with and without experts.
void refuse_what_has_no_key(const Json& json, const TransformerConfig& config, const std::string& architecture) {
  for (const LayerConfig& layer : config.layers) {
    const auto* const attention = std::get_if<AttentionLayer>(&layer.mixer);
    if (attention != nullptr && attention->window != AttentionCache::everything) {
      json.at("sliding_window").fail("layers with a sliding window have no form in a GGUF of " + architecture);
    }
    if ((layer.experts.count == 0) != (config.layers[0].experts.count == 0)) {
      json.fail("layers with and without experts have no form in a GGUF of " + architecture);
    }
    if (layer.experts.count > 0 && !layer.experts.normalized) {
      json.find("norm_topk_prob").value_or(json).fail("must be true in a GGUF of " + architecture);
    }
  }
}

void add_attention(const AttentionLayer& layer, const Rope& rope, Keys& keys) {
  keys.size("attention.head_count", layer.shape.heads);
  keys.size("attention.head_count_kv", layer.shape.kv_heads);
  keys.size("attention.key_length", layer.shape.head_dim);
  keys.size("attention.value_length", layer.shape.head_dim);
  keys.size("rope.dimension_count", 2 * rope.half());
}

/// `heads`: MTP heads, which are blocks too.
void add_transformer(const Json& json, const TransformerConfig& config, int heads, Keys& keys) {
  keys.size("block_count", config.depth() + heads);
  if (heads > 0) keys.size("nextn_predict_layers", heads);
  keys.size("context_length", config.context);
  keys.size("embedding_length", config.hidden);
  keys.size("vocab_size", config.vocabulary);
  keys.number("attention.layer_norm_rms_epsilon", config.epsilon);
  for (const LayerConfig& layer : config.layers) {
    if (const auto* const attention = std::get_if<AttentionLayer>(&layer.mixer)) {
      add_attention(*attention, config.ropes[0], keys);
      break;
    }
  }
  const LayerConfig& first = config.layers[0];
  const auto intermediate = json.find("intermediate_size");
  if (first.intermediate > 0) keys.size("feed_forward_length", first.intermediate);
  else if (intermediate) keys.size("feed_forward_length", intermediate->integer(1, 1 << 24));
  if (first.experts.count > 0) add_experts(first.experts, keys);
  add_rope(json, config.ropes[0], keys);
}

void add_target(const Checkpoint& from, const std::string& architecture, Keys& keys) {
  const Json& whole = from.config();
  const TransformerConfig config = describe(whole);
  if (architecture == "gemma4" || architecture == assistant) {
    add_gemma4(config, keys);
    if (architecture == "gemma4") return;
    keys.size("nextn_predict_layers", config.depth());
    keys.size("embedding_length_out", read_backbone_width(whole));
    return;
  }
  const int heads = has_mtp_heads(from) ? static_cast<int>(read_mtp_config(from).heads.size()) : 0;
  const Json json = text_config(whole);
  const bool gemma = architecture.starts_with("gemma");
  if (!gemma) refuse_what_has_no_key(json, config, architecture);
  add_transformer(json, config, heads, keys);
  if (gemma) add_gemma(json, config, architecture, keys);
  if (architecture == "mistral3") {
    const auto beta = rope_block(json).find("llama_4_scaling_beta");
    if (beta) keys.number("attention.temperature_scale", beta->number());
  }
  for (const LayerConfig& layer : config.layers) {
    if (const auto* const shape = std::get_if<RecurrentShape>(&layer.mixer)) {
      // M-RoPE: pair j has the position of time, height or width as j % 3 says, up to these counts; for a text all
      // three are one.
      const int half = config.ropes[0].half();
      keys.integers("rope.dimension_sections", {(half + 2) / 3, (half + 1) / 3, half / 3, 0});
      add_recurrence(config, *shape, heads, keys);
      break;
    }
  }
}

/// The layers that a draft reads, counted from `first`.
std::vector<std::int32_t> layers_from(int first, const Json& taps) {
  std::vector<std::int32_t> layers;
  for (const std::int64_t tap : taps.integers(0, 1 << 20)) layers.push_back(static_cast<std::int32_t>(tap + first));
  return layers;
}

/// The features of the target, of all tapped layers together, that a DFlash draft reads for a token.
std::int64_t fused_inputs(const Checkpoint& from) {
  const std::string name = from.has("model.fc.weight") ? "model.fc.weight" : "fc.weight";
  if (!from.has(name)) throw Error(from.path().string() + ": has no tensor fc.weight");
  return from.tensors().at(name).shape.back();
}

/// `inputs`, in the form of ik_llama.cpp: the features that it reads for a token.
void add_draft(const Json& json, Keys& keys, GgufFields& fields, std::optional<std::int64_t> inputs) {
  for (const char* name : {"transformer_layer_config", "draft_vocab_size"}) {
    if (const auto found = json.find(name)) found->fail("cannot be converted yet");
  }
  const TransformerConfig config = read_transformer_config(json);
  add_transformer(json, config, 0, keys);
  const auto size = find_dflash_field(json, "block_size");
  const auto taps = find_dflash_field(json, "target_layer_ids");
  const auto mask = find_dflash_field(json, "mask_token_id");
  if (!size || !taps || !mask) json.fail("needs block_size, target_layer_ids and mask_token_id");
  const std::int64_t block_size = size->integer(1, 1 << 20);
  const std::int64_t mask_token = mask->integer(0, config.vocabulary - 1);
  if (inputs) {
    keys.size("dflash.block_size", block_size);
    keys.integers("dflash.target_layer_ids", layers_from(0, *taps));
    keys.size("dflash.mask_token_id", mask_token);
    keys.size("dflash.n_target_features", *inputs);
  } else {
    keys.size("block_size", block_size);
    keys.integers("target_layers", layers_from(1, *taps));
    fields.size("tokenizer.ggml.mask_token_id", static_cast<std::uint32_t>(mask_token));
  }
  for (const char* name : {"use_swa", "causal", "swa_window_size", "input_embedding_scale", "output_multiplier",
                           "final_logit_softcapping", "attention_value_scale", "sample_from_anchor"}) {
    if (const auto found = find_dflash_field(json, name); found && !(found->is_boolean() && !found->boolean())) {
      found->fail("cannot be converted yet");
    }
  }
  for (const char* name : {"conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"}) {
    const auto value = find_dflash_field(json, name);
    if (!value) continue;
    if (inputs) value->fail("is of DFlash2, which ik_llama.cpp does not read");
    keys.size(name, value->integer(1, 1 << 24));
  }
  if (const auto causal = json.find("is_causal")) keys.truth("attention.causal", causal->boolean());
  const auto first = std::ranges::find_if(config.layers, slides);
  if (first == config.layers.end() || !json.find("layer_types")) return;  // a draft slides where its layer_types say so
  std::vector<bool> sliding;
  for (const LayerConfig& layer : config.layers) sliding.push_back(slides(layer));
  keys.size("attention.sliding_window", std::get<AttentionLayer>(first->mixer).window);
  keys.truths("attention.sliding_window_pattern", sliding);
}

}  // namespace

std::string gguf_architecture(const Json& config, GgufReader reader) {
  if (is_dflash(config)) return reader == GgufReader::ik_llama_cpp ? ik_dflash : "dflash";
  if (is_eagle3(config)) config.fail("a GGUF of an EAGLE-3 draft cannot be written yet");
  const std::string& type = config.at("model_type").string();
  const auto* const found = std::ranges::find(names, type, &Name::model_type);
  if (found == std::end(names)) config.at("model_type").fail("a GGUF of " + in_quotes(type) + " cannot be written yet");
  return found->gguf;
}

void add_model_fields(const Checkpoint& from, const std::string& architecture, Format type, GgufFields& fields) {
  fields.text("general.architecture", architecture);
  fields.text("general.name", from.path().filename().string());
  fields.size("general.file_type", gguf_file_type(type));
  fields.size("general.quantization_version", 2);
  Keys keys(architecture, fields);
  if (architecture == "dflash") add_draft(from.config(), keys, fields, std::nullopt);
  else if (architecture == ik_dflash) add_draft(from.config(), keys, fields, fused_inputs(from));
  else add_target(from, architecture, keys);
}

}  // namespace draftproof
