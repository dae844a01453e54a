// SPDX-License-Identifier: MIT
// The names and keys of all families are those of llama.cpp's gguf-py (constants.py, tensor_mapping.py); their meaning
// is that of its conversion scripts.
#include "ref/formats/gguf/transformer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "ref/formats/gguf/stop_tokens.h"
#include "ref/formats/printable.h"

namespace draftproof {

using nlohmann::ordered_json;

namespace {

constexpr const char* long_factors = "rope_factors_long.weight";
constexpr const char* short_factors = "rope_factors_short.weight";

/// The factors of longrope are tensors.
ordered_json longrope(const GgufKeys& keys) {
  if (!keys.has_tensor(short_factors))
    keys.fail("rope.scaling.type", "needs the tensor rope_factors_short.weight, too");
  return {{"rope_type", "longrope"},
          {"short_factor", keys.vector(short_factors)},
          {"long_factor", keys.vector(long_factors)},
          {"original_max_position_embeddings", keys.size("rope.scaling.original_context_length")},
          {"attention_factor", keys.find_number("rope.scaling.attn_factor").value_or(1)}};
}

/// Reads the RoPE scaling keys as llama.cpp does: a factor without a type is linear, 0 means 1, and 'none' has no
/// factor. Of yarn the magnitude is that of its factor, divided by that of yarn_log_multiplier. Returns rope_scaling,
/// null when nothing scales.
ordered_json rope_scaling(const GgufKeys& keys) {
  const std::string* const type = keys.find_text("rope.scaling.type");
  if (keys.has_tensor(long_factors) && (type == nullptr || *type == "longrope")) return longrope(keys);
  if (type != nullptr && *type == "none") return nullptr;
  if (type != nullptr && *type != "linear" && *type != "yarn") {
    keys.fail("rope.scaling.type", in_quotes(*type) + " is not implemented; only 'none', 'linear' and 'yarn' are");
  }
  for (const char* name :
       {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_ext_factor"}) {
    if (keys.find_number(name).value_or(1) != 1) keys.fail(name, "is not implemented; only 1 is");
  }
  double factor = 1;
  for (const char* name : {"rope.scale_linear", "rope.scaling.factor"}) {
    const auto found = keys.find_number(name);
    if (found && *found != 0) factor = *found;
  }
  if (type == nullptr || *type == "linear") {
    if (factor == 1) return nullptr;
    return {{"rope_type", "linear"}, {"factor", factor}};
  }
  ordered_json block = {{"rope_type", "yarn"}, {"factor", factor}};
  const auto copy = [&](const char* name, const char* field) {
    if (const auto number = keys.find_number(name)) block[field] = *number;
  };
  copy("rope.scaling.original_context_length", "original_max_position_embeddings");
  copy("rope.scaling.yarn_beta_fast", "beta_fast");
  copy("rope.scaling.yarn_beta_slow", "beta_slow");
  copy("rope.scaling.yarn_log_multiplier", "mscale_all_dim");
  if (block.contains("mscale_all_dim")) block["mscale"] = 1;
  return block;
}

/// The number of blocks counts those of MTP heads.
void put_heads(const GgufKeys& keys, ordered_json& config) {
  const auto heads = keys.find_integer("nextn_predict_layers");
  if (!heads) return;
  const std::int64_t blocks = keys.layers();
  if (*heads < 0 || *heads >= blocks) keys.fail("nextn_predict_layers", "must be at least 0 and below block_count");
  config["num_hidden_layers"] = blocks - *heads;
  config["num_nextn_predict_layers"] = *heads;
}

constexpr GgufField transformer_field_keys[] = {
    {"hidden_size", "embedding_length"},
    {"intermediate_size", "feed_forward_length"},
    {"num_hidden_layers", "block_count"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"head_dim", "attention.key_length"},
    {"max_position_embeddings", "context_length"},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"rope_theta", "rope.freq_base"},
    {"rope_scaling.factor", "rope.scaling.factor"},
    {"rope_scaling.original_max_position_embeddings", "rope.scaling.original_context_length"},
    {"rope_scaling.beta_fast", "rope.scaling.yarn_beta_fast"},
    {"rope_scaling.beta_slow", "rope.scaling.yarn_beta_slow"},
    {"rope_scaling.mscale_all_dim", "rope.scaling.yarn_log_multiplier"},
    {"partial_rotary_factor", "rope.dimension_count"},
    {"num_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"num_nextn_predict_layers", "nextn_predict_layers"},
    {"vocab_size", "vocab_size"},
    {"sliding_window", "attention.sliding_window"},
    {"layer_types", "attention.sliding_window_pattern"},
    {"final_logit_softcapping", "final_logit_softcapping"},
};

}  // namespace

bool keeps_mtp_heads(const GgufNames& names) {
  return std::ranges::any_of(names.layer,
                             [](const GgufName& row) { return std::string_view(row.gguf) == "nextn.eh_proj"; });
}

ordered_json transformer_fields(const Gguf& file, const GgufKeys& keys, const char* model_type, const char* class_name,
                                GgufLayers layers) {
  const std::int64_t hidden = keys.size("embedding_length");
  const std::int64_t heads = keys.layer_size("attention.head_count");
  const auto key_length = keys.find_size("attention.key_length");
  if (!key_length && hidden % heads != 0) keys.fail("attention.key_length", "is missing, and cannot be computed");
  const std::int64_t head_dim = key_length.value_or(hidden / heads);
  const bool latent = keys.find_size("attention.kv_lora_rank").has_value();
  if (!latent && keys.find_size("attention.value_length").value_or(head_dim) != head_dim) {
    keys.fail("attention.value_length", "differs from the length of keys, which is not implemented");
  }
  const auto embedding = file.tensors().find("token_embd.weight");
  const bool has_embedding = embedding != file.tensors().end() && embedding->second.shape.size() == 2;
  const auto vocabulary = keys.find_size("vocab_size");
  const auto kv_heads = [&]() -> std::int64_t {
    const char* const key = "attention.head_count_kv";
    if (layers == GgufLayers::uneven) return keys.layer_sizes(key)[0];
    if (layers >= GgufLayers::some_attend) return std::ranges::max(keys.attention_sizes(key));
    return keys.find_layer_size(key).value_or(heads);
  };

  ordered_json config = {
      {"model_type", model_type},
      {"architectures", {class_name}},
      {"hidden_size", hidden},
      {"num_hidden_layers", keys.layers()},
      {"num_attention_heads", heads},
      {"num_key_value_heads", kv_heads()},
      {"head_dim", head_dim},
      {"max_position_embeddings", keys.size("context_length")},
      {"rms_norm_eps", nullptr},
      {"rope_theta", keys.find_number("rope.freq_base").value_or(10000.0)},
      {"hidden_act", "silu"},
      {"tie_word_embeddings", !file.tensors().contains("output.weight")},
      {"attention_bias", file.tensors().contains("blk.0.attn_output.bias")},  // those of q, k and v are beside it
      {"mlp_bias", file.tensors().contains("blk.0.ffn_down.bias")},
  };
  if (const auto epsilon = keys.find_number("attention.layer_norm_epsilon")) {
    config.erase("rms_norm_eps");
    config["layer_norm_eps"] = *epsilon;
  } else {
    config["rms_norm_eps"] = keys.number("attention.layer_norm_rms_epsilon");
  }
  const char* const mlp = "feed_forward_length";
  if (layers == GgufLayers::uneven) config["intermediate_size"] = keys.layer_sizes(mlp)[0];
  else if (layers == GgufLayers::parts) config["intermediate_size"] = std::ranges::max(keys.attention_sizes(mlp));
  else if (const auto inner = keys.find_layer_size(mlp)) config["intermediate_size"] = *inner;
  if (ordered_json scaling = rope_scaling(keys); !scaling.is_null()) config["rope_scaling"] = std::move(scaling);
  if (vocabulary || has_embedding) config["vocab_size"] = vocabulary ? *vocabulary : embedding->second.shape[0];
  if (const auto turned = keys.find_size("rope.dimension_count"); turned && *turned != head_dim) {
    config["partial_rotary_factor"] = static_cast<double>(*turned) / static_cast<double>(head_dim);
  }
  return config;
}

void refuse_experts(const GgufKeys& keys, ordered_json&) {
  for (const char* name : {"expert_count", "expert_used_count"}) {
    if (keys.find_number(name).value_or(0) != 0) keys.fail(name, "must be 0; this architecture has no experts");
  }
}

void require_one_group(const GgufKeys& keys) {
  if (keys.find_integer("expert_group_count").value_or(1) > 1) {
    keys.fail("expert_group_count", "must be 1; groups of experts are not implemented");
  }
}

/// llama.cpp normalizes the weights of the chosen experts of every Qwen3-MoE and Qwen3.5; all of their layers have
/// experts.
void put_experts(const GgufKeys& keys, ordered_json& config) {
  config["num_experts"] = keys.size("expert_count");
  config["num_experts_per_tok"] = keys.size("expert_used_count");
  config["moe_intermediate_size"] = keys.size("expert_feed_forward_length");
  config["norm_topk_prob"] = true;
  if (const auto scale = keys.find_number("expert_weights_scale"); scale && *scale != 0 && *scale != 1) {
    keys.fail("expert_weights_scale", "is not implemented; only 1 is");
  }
  if (!keys.find_boolean("expert_weights_norm").value_or(true)) {
    keys.fail("expert_weights_norm", "must be true, as llama.cpp has it");
  }
  if (keys.find_size("expert_gating_func").value_or(softmax_gating) != softmax_gating) {
    keys.fail("expert_gating_func", "is not implemented; only 1, the softmax, is");
  }
}

void put_granite_factors(const GgufKeys& keys, ordered_json& config) {
  for (const auto& [field, key] : granite_factors) {
    if (const auto factor = keys.find_number(key); factor && *factor != 0) config[field] = *factor;
  }
  if (!config.contains("attention_multiplier")) {
    config["attention_multiplier"] = 1 / std::sqrt(config["head_dim"].get<double>());
  }
}

void put_sliding_layers(const GgufKeys& keys, ordered_json& config) {
  const auto pattern = keys.find_integers("attention.sliding_window_pattern");
  if (!pattern) return;
  for (const std::int64_t slides : *pattern) {
    config["layer_types"].push_back(slides != 0 ? "sliding_attention" : "full_attention");
  }
}

Json as_json(const Gguf& file, const GgufKeys& keys, const ordered_json& config, std::span<const GgufField> own,
             std::map<std::string, std::string> names) {
  for (const std::span<const GgufField> fields : {own, std::span<const GgufField>(transformer_field_keys)}) {
    for (const auto& [field, key] : fields) names.emplace(field, keys.whole(key));
  }
  return Json::parse(config.dump(), file.file().string(), std::move(names));
}

Json read_gguf_target(const Gguf& file, const GgufTarget& how) {
  const GgufKeys keys(file);
  keys.refuse_all_but({transformer_keys, target_keys, how.own_keys});
  if (!keys.find_boolean("attention.causal").value_or(true)) {
    keys.fail("attention.causal", "must be true for a target model");
  }
  ordered_json config = transformer_fields(file, keys, how.model_type, how.class_name, how.layers);
  put_heads(keys, config);
  how.put(keys, config);
  if (!config.contains("vocab_size")) {
    keys.fail("vocab_size", "is missing, and so is the tensor token_embd.weight");
  }
  put_stop_tokens(file, config);
  return as_json(file, keys, config, how.own_fields, {{"eos_token_id", "tokenizer.ggml.eos_token_id"}});
}

Json rope_block(const Json& config) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    if (const auto block = config.find(name)) return block->find("full_attention").value_or(*block);
  }
  return config;
}

namespace {

void write_rope(const Json& config, const GgufModel::Rope& rope, GgufLayers layers, bool rounds_ramp,
                GgufKeyWriter& keys) {
  keys.number("rope.freq_base", rope.theta);
  if (rope.kind == "longrope") {  // its factors are tensors
    keys.size("rope.scaling.original_context_length", rope.context);
    keys.number("rope.scaling.attn_factor", rope.magnitude);
    return;
  }
  if (rope.kind == "default" || rope.kind == "llama3") return;  // llama3 is a tensor
  keys.text("rope.scaling.type", rope.kind);
  if (rope.kind == "linear") {
    keys.number("rope.scaling.factor", rope.factor);
    return;
  }
  const Json block = rope_block(config);
  const auto factor = block.find("factor");
  if (!factor) block.fail("needs factor, without which a GGUF cannot hold it");
  keys.number("rope.scaling.factor", factor->number());
  if (const auto magnitude = block.find("attention_factor")) magnitude->fail("has no key in a GGUF");
  const auto truncate = block.find("truncate");
  if ((!truncate || truncate->boolean()) != rounds_ramp) {
    truncate.value_or(block).fail(std::string("truncate must be ") + (rounds_ramp ? "true" : "false") +
                                  " in a GGUF of " + keys.architecture() + ", which has no key for it");
  }
  const auto original = block.find("original_max_position_embeddings");
  keys.size("rope.scaling.original_context_length",
            original ? original->integer(1, 1 << 30) : config.at("max_position_embeddings").integer(1, 1 << 30));
  for (const auto& [field, key] :
       {std::pair("beta_fast", "rope.scaling.yarn_beta_fast"), {"beta_slow", "rope.scaling.yarn_beta_slow"}}) {
    const auto found = block.find(field);
    if (found && found->number() != 0) keys.number(key, found->number());
  }
  const auto number = [&](const char* name) {
    const auto found = block.find(name);
    return found ? found->number() : 0;
  };
  const bool latent = layers == GgufLayers::latent;
  const double all = number("mscale_all_dim");
  if (all != 0) keys.number("rope.scaling.yarn_log_multiplier", latent ? 0.1 * all : all);
  if (latent && (all == 0 || number("mscale") != all)) {
    block.find("mscale").value_or(block).fail("must have mscale and mscale_all_dim, the same and not 0, in a GGUF of " +
                                              keys.architecture());
  }
  if (!latent && number("mscale") != 0 && number("mscale") != 1) block.at("mscale").fail("must be 1 in a GGUF");
}

void write_attention(const GgufModel::Attention& layer, GgufKeyWriter& keys) {
  keys.size("attention.head_count", layer.heads);
  keys.size("attention.key_length", layer.head_dim);
  keys.size("attention.value_length", layer.value_dim);
}

/// Whatever layers are, its number of KV heads, and the widths of MLPs, in place of one for all.
void write_parts(const GgufModel& model, GgufLayers layers, GgufKeyWriter& keys) {
  std::vector<std::int32_t> kv_heads;
  std::vector<std::int32_t> widths;
  for (const GgufModel::Layer& layer : model.layers) {
    kv_heads.push_back(layer.attention ? layer.attention->kv_heads : 0);
    widths.push_back(layer.experts.count > 0 ? layer.experts.intermediate : layer.intermediate);
  }
  for (int i = 0; i < model.mtp_heads; ++i) {  // with attention and experts like those of the layers
    for (std::vector<std::int32_t>* const sizes : {&kv_heads, &widths}) sizes->push_back(std::ranges::max(*sizes));
  }
  keys.integers("attention.head_count_kv", kv_heads);
  if (layers == GgufLayers::parts) keys.integers("feed_forward_length", widths);
}

}  // namespace

void write_experts(const GgufModel::Experts& experts, GgufKeyWriter& keys) {
  keys.size("expert_count", experts.count);
  keys.size("expert_used_count", experts.chosen);
  keys.size("expert_feed_forward_length", experts.intermediate);
  if (experts.shared > 0) keys.size("expert_shared_feed_forward_length", experts.shared);
}

void write_transformer(const GgufModel& model, GgufKeyWriter& keys, GgufLayers layers, bool rounds_ramp) {
  keys.size("block_count", model.depth() + model.mtp_heads);
  if (model.mtp_heads > 0) keys.size("nextn_predict_layers", model.mtp_heads);
  keys.size("context_length", model.context);
  keys.size("embedding_length", model.hidden);
  keys.size("vocab_size", model.vocabulary);
  const char* const norm = model.subtracts_mean ? "layer_norm_epsilon" : "layer_norm_rms_epsilon";
  keys.number(std::string("attention.") + norm, model.epsilon);
  for (const GgufModel::Layer& layer : model.layers) {
    if (!layer.attention) continue;
    write_attention(*layer.attention, keys);
    if (!model.ropes.empty()) keys.size("rope.dimension_count", model.ropes[0].turned);
    if (layers < GgufLayers::some_attend) keys.size("attention.head_count_kv", layer.attention->kv_heads);
    break;
  }
  if (layers >= GgufLayers::some_attend) write_parts(model, layers, keys);
  const GgufModel::Layer& first = model.layers[0];
  const auto dense = model.config.find("intermediate_size_mlp");  // of Llama 4, beside that of experts
  const auto intermediate = dense ? dense : model.config.find("intermediate_size");
  const std::int64_t width = first.intermediate > 0 ? first.intermediate
                             : intermediate         ? intermediate->integer(1, 1 << 24)
                                                    : 0;
  if (layers != GgufLayers::parts && width > 0) keys.size("feed_forward_length", width);
  if (first.experts.count > 0) write_experts(first.experts, keys);
  if (!model.ropes.empty()) write_rope(model.config, model.ropes[0], layers, rounds_ramp, keys);
}

void write_plain_transformer(const GgufModel& model, GgufKeyWriter& keys) {
  const std::string& architecture = keys.architecture();
  for (const GgufModel::Layer& layer : model.layers) {
    if (layer.slides()) {
      model.config.at("sliding_window").fail("layers with a sliding window have no form in a GGUF of " + architecture);
    }
    if ((layer.experts.count == 0) != (model.layers[0].experts.count == 0)) {
      model.config.fail("layers with and without experts have no form in a GGUF of " + architecture);
    }
    if (layer.experts.count > 0 && !layer.experts.normalized) {
      model.config.find("norm_topk_prob").value_or(model.config).fail("must be true in a GGUF of " + architecture);
    }
  }
  write_transformer(model, keys);
}

void write_recurrence(const GgufModel& model, GgufKeyWriter& keys) {
  if (!model.recurrence) return;
  keys.size("ssm.conv_kernel", model.recurrence->conv_width);
  keys.size("ssm.state_size", model.recurrence->key_dim);
  keys.size("ssm.group_count", model.recurrence->key_heads);
  keys.size("ssm.time_step_rank", model.recurrence->value_heads);
  keys.size("ssm.inner_size", model.recurrence->inner);
}

void write_granite_factors(const GgufModel& model, GgufKeyWriter& keys) {
  for (const auto& [field, key] : granite_factors) {
    const auto factor = model.config.find(field);
    keys.number(key, factor ? factor->number() : 1);
  }
}

void write_sliding_layers(const GgufModel& model, GgufKeyWriter& keys) {
  std::vector<bool> sliding;
  for (const GgufModel::Layer& layer : model.layers) sliding.push_back(layer.slides());
  keys.truths("attention.sliding_window_pattern", sliding);
}

}  // namespace draftproof
