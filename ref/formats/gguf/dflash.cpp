// SPDX-License-Identifier: MIT
// DFlash drafts, in the form of llama.cpp and in that of ik_llama.cpp. Both are read with the names and keys of either.
#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t layers_max = 1 << 20;

/// Of several names the first is that of llama.cpp.
constexpr GgufName whole_names[] = {
    {"fc", "fc"},
    {"dflash_fc", "fc"},
    {"dflash.fc", "fc"},
    {"encoder.fc", "fc"},
    {"enc.output_norm", "hidden_norm"},
    {"dflash_hidden_norm", "hidden_norm"},
    {"dflash.hidden_norm", "hidden_norm"},
    {"output_norm", "norm"},
    // Where the draft has its own embedding, head or vocabulary.
    {"token_embd", "embed_tokens"},
    {"output", "lm_head"},
    {"d2t", "d2t", false, true},
    // Of DFlash2.
    {"selector_hidden", "candidate_selector.hidden_projection"},
    {"selector_predecessor.weight", "candidate_selector.predecessor_codebook", false, true},
    {"selector_successor.weight", "candidate_selector.successor_codebook", false, true},
    // Of DSpark.
    {"markov_w1", "markov_head.markov_w1"},
    {"markov_w2", "markov_head.markov_w2"},
    {"conf_proj", "confidence_head.proj"},
};

constexpr GgufName layer_names[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj", true},
    {"attn_k", "self_attn.k_proj", true},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_sinks.weight", "self_attn.attention_sink_bias", false, true},
    {"attn_sinks", "self_attn.attention_sink_bias", false, true},
    {"ffn_norm", "post_attention_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    // Of DFlash2.
    {"attn_conv_base", "attention_conv.base_kernel", false, true},
    {"attn_conv_proj", "attention_conv.kernel_projection"},
    {"ffn_conv_base", "mlp_conv.base_kernel", false, true},
    {"ffn_conv_proj", "mlp_conv.kernel_projection"},
};

/// The same with those of ik_llama.cpp first.
constexpr auto ik_whole_names = joined({{"dflash_fc", "fc"}, {"dflash_hidden_norm", "hidden_norm"}}, whole_names);
constexpr auto ik_layer_names = joined({{"post_attention_norm", "post_attention_layernorm"}}, layer_names);

constexpr std::string_view own_keys[] = {"block_size",
                                         "target_layers",
                                         "mask_token_id",
                                         "target_layer_ids",
                                         "n_target_features",
                                         "laguna",
                                         "dflash.block_size",
                                         "dflash.target_layer_ids",
                                         "dflash.mask_token_id",
                                         "dflash.n_target_features",
                                         "dflash.laguna",
                                         "attention.causal",
                                         "attention.sliding_window",
                                         "attention.sliding_window_pattern",
                                         "attention.value_scale",
                                         "rope.dimension_sections",
                                         "logit_scale",
                                         "final_logit_softcapping",
                                         "embedding_scale",
                                         "sample_from_anchor",
                                         "has_confidence_head",
                                         "conv_kernel_size",
                                         "conv_group_size",
                                         "selector_rank",
                                         "selector_top_k"};

constexpr GgufField factors[] = {
    {"output_multiplier", "logit_scale"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"input_embedding_scale", "embedding_scale"},
    {"attention_value_scale", "attention.value_scale"},
};

/// Of DFlash2; fields and keys have one name.
constexpr const char* second_version[] = {"conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"};

/// A draft with a Markov head is one of DSpark.
void put_heads_of_dspark(const Gguf& file, ordered_json& config) {
  const auto head = file.tensors().find("markov_w1.weight");
  if (head == file.tensors().end() || head->second.shape.size() != 2) return;
  config["architectures"] = {"Qwen3DSparkModel"};
  config["markov_rank"] = head->second.shape.back();
}

/// Returns one configuration for all spellings. llama.cpp counts tapped layers from 1 ("target_layers"), others from 0
/// ("target_layer_ids"). A draft without a vocabulary uses its target's.
Json read(const Gguf& file) {
  const GgufKeys keys(file);
  keys.refuse_all_but({transformer_keys, own_keys});
  ordered_json config = transformer_fields(file, keys, "qwen3", "DFlashDraftModel");

  std::map<std::string, std::string> names = {{"is_causal", keys.whole("attention.causal")},
                                              {"sample_from_anchor", keys.whole("sample_from_anchor")},
                                              {"enable_confidence_head", keys.whole("has_confidence_head")}};
  for (const char* name : {"block_size", "dflash.block_size"}) {
    const auto size = keys.find_size(name);
    if (!size) continue;
    config["block_size"] = *size;
    names["block_size"] = keys.whole(name);
  }
  ordered_json block = ordered_json::object();
  for (const std::string& key : {keys.whole("mask_token_id"), keys.whole("dflash.mask_token_id"),
                                 std::string("dflash.mask_token_id"), std::string("tokenizer.ggml.mask_token_id")}) {
    const auto mask = file.find_integer(key);
    if (!mask) continue;
    block["mask_token_id"] = *mask;
    names["dflash_config.mask_token_id"] = key;
  }
  for (const char* name : {"target_layer_ids", "dflash.target_layer_ids"}) {
    const auto layers = keys.find_integers(name);
    if (!layers) continue;
    block["target_layer_ids"] = *layers;
    names["dflash_config.target_layer_ids"] = keys.whole(name);
  }
  if (auto layers = keys.find_integers("target_layers")) {
    for (std::int64_t& layer : *layers) {
      if (layer < 1 || layer > layers_max) keys.fail("target_layers", "counts layers from 1");
      --layer;
    }
    block["target_layer_ids"] = *layers;
    names["dflash_config.target_layer_ids"] = keys.whole("target_layers");
  }
  for (const char* sinks : {"blk.0.attn_sinks.weight", "blk.0.attn_sinks"}) {
    if (file.tensors().contains(sinks)) block["attention_sink_bias"] = true;
  }
  config["dflash_config"] = block;

  for (const char* name : {"laguna", "dflash.laguna"}) {
    if (keys.find_boolean(name).value_or(false)) keys.fail(name, "is not implemented");
  }
  if (const auto causal = keys.find_boolean("attention.causal")) config["is_causal"] = *causal;
  if (const auto window = keys.find_size("attention.sliding_window")) config["sliding_window"] = *window;
  put_sliding_layers(keys, config);
  for (const auto& [field, key] : factors) {
    if (const auto factor = keys.find_number(key)) config[field] = *factor;
  }
  put_heads_of_dspark(file, config);
  if (const auto anchor = keys.find_boolean("sample_from_anchor")) config["sample_from_anchor"] = *anchor;
  if (const auto head = keys.find_boolean("has_confidence_head")) config["enable_confidence_head"] = *head;
  for (const char* name : second_version) {
    const auto size = keys.find_size(name);
    if (!size) continue;
    config[name] = *size;
    config["architectures"] = {"DFlash2DraftModel"};  // any of them says so
    names[name] = keys.whole(name);
  }
  if (const auto map = file.tensors().find("d2t"); map != file.tensors().end() && map->second.shape.size() == 1) {
    config["draft_vocab_size"] = map->second.shape[0];
  }
  return as_json(file, keys, config, factors, std::move(names));
}

/// The layers that a draft reads, counted from `first`.
std::vector<std::int32_t> layers_from(int first, const Json& taps) {
  std::vector<std::int32_t> layers;
  for (const std::int64_t tap : taps.integers(0, layers_max)) layers.push_back(static_cast<std::int32_t>(tap + first));
  return layers;
}

struct DFlashBlock {
  std::int64_t size;
  Json taps;
  std::int64_t mask_token;
};

DFlashBlock block_of(const GgufModel& model) {
  const auto size = model.find("block_size");
  const auto taps = model.find("target_layer_ids");
  const auto mask = model.find("mask_token_id");
  if (!size || !taps || !mask) model.config.fail("needs block_size, target_layer_ids and mask_token_id");
  return {size->integer(1, 1 << 20), *taps, mask->integer(0, model.vocabulary - 1)};
}

void refuse_what_has_no_key(const GgufModel& model) {
  for (const char* name : {"use_swa", "causal", "swa_window_size", "input_embedding_scale", "output_multiplier",
                           "final_logit_softcapping", "attention_value_scale"}) {
    if (const auto found = model.find(name); found && !(found->is_boolean() && !found->boolean())) {
      found->fail("cannot be converted yet");
    }
  }
}

/// What the rows of a block see. A draft slides where its layer_types say so.
void write_sight(const GgufModel& model, GgufKeyWriter& keys) {
  if (const auto causal = model.config.find("is_causal")) keys.truth("attention.causal", causal->boolean());
  const auto first = std::ranges::find_if(model.layers, &GgufModel::Layer::slides);
  if (first == model.layers.end() || !model.config.find("layer_types")) return;
  keys.size("attention.sliding_window", first->attention->window);
  write_sliding_layers(model, keys);
}

/// llama.cpp takes the Markov head for the mark of DSpark, and only there it drafts from the anchor's row.
void write_dspark(const GgufModel& model, GgufKeyWriter& keys) {
  if (!model.dspark) return;
  if (!model.dspark->markov_head) {
    model.config.fail("has a confidence head or draft tokens of the anchor's row, but no Markov head; a GGUF has no " +
                      std::string("form for that"));
  }
  keys.truth("sample_from_anchor", model.dspark->from_anchor);
  keys.truth("has_confidence_head", model.dspark->confidence_head);
}

void write(const GgufModel& model, GgufKeyWriter& keys) {
  write_transformer(model, keys);
  const DFlashBlock block = block_of(model);
  keys.size("block_size", block.size);
  keys.integers("target_layers", layers_from(1, block.taps));
  keys.fields().size("tokenizer.ggml.mask_token_id", static_cast<std::uint32_t>(block.mask_token));
  refuse_what_has_no_key(model);
  write_dspark(model, keys);
  for (const char* name : second_version) {
    if (const auto value = model.find(name)) keys.size(name, value->integer(1, 1 << 24));
  }
  write_sight(model, keys);
}

void write_for_ik(const GgufModel& model, GgufKeyWriter& keys) {
  write_transformer(model, keys);
  const DFlashBlock block = block_of(model);
  keys.size("dflash.block_size", block.size);
  keys.integers("dflash.target_layer_ids", layers_from(0, block.taps));
  keys.size("dflash.mask_token_id", block.mask_token);
  keys.size("dflash.n_target_features", model.target_features());
  refuse_what_has_no_key(model);
  for (const char* name : second_version) {
    if (const auto value = model.find(name)) value->fail("is of DFlash2, which ik_llama.cpp does not read");
  }
  if (model.dspark) model.config.fail("is a DSpark draft, which ik_llama.cpp does not read in this form");
  write_sight(model, keys);
}

}  // namespace

const GgufFamily gguf_dflash = {.architecture = "dflash",
                                .names = {.whole = whole_names, .layer = layer_names, .layers = "layers."},
                                .read = read,
                                .write = write};
const GgufFamily gguf_ik_dflash = {.architecture = "dflash-draft",
                                   .names = {.whole = ik_whole_names, .layer = ik_layer_names, .layers = "layers."},
                                   .read = read,
                                   .write = write_for_ik};

}  // namespace draftproof
