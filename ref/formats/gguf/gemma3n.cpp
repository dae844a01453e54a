// SPDX-License-Identifier: MIT
// Gemma 3n. llama.cpp has the keys that the published models differ by; it takes the number of streams (4), the rank
// beside attention (64), the width per layer (256), which layers share keys (from 20) and have sparse gates (the first
// 10) and the cap of logits (30) from these models.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "ref/formats/gguf/gemma.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr auto whole_names = joined(
    gemma_whole, {{"altup_proj", "model.altup_projections"}, {"altup_unembd_proj", "model.altup_unembed_projections"}});

constexpr auto layer_names =
    joined(gemma_layer, {{"inp_gate", "per_layer_input_gate"},
                         {"proj", "per_layer_projection"},
                         {"post_norm", "post_per_layer_input_norm"},
                         {"altup_correct_coef", "altup.correction_coefs"},
                         {"altup_correct_scale.weight", "altup.correct_output_scale", false, true},
                         {"altup_predict_coef", "altup.prediction_coefs"},
                         {"altup_router", "altup.modality_router"},
                         {"altup_router_norm", "altup.router_norm"},
                         {"laurel_l", "laurel.linear_left"},
                         {"laurel_r", "laurel.linear_right"},
                         {"laurel_post_norm", "laurel.post_laurel_norm"}});

constexpr std::string_view own_keys[] = {
    "attention.sliding_window",   "attention.sliding_window_pattern", "final_logit_softcapping", "rope.freq_base_swa",
    "attention.shared_kv_layers", "embedding_length_per_layer_input", "altup.active_idx",        "altup.num_inputs",
    "activation_sparsity_scale"};

constexpr GgufField own_fields[] = {{"num_kv_shared_layers", "attention.shared_kv_layers"},
                                    {"hidden_size_per_layer_input", "embedding_length_per_layer_input"},
                                    {"rope_local_base_freq", "rope.freq_base_swa"},
                                    {"altup_active_idx", "altup.active_idx"},
                                    {"altup_num_inputs", "altup.num_inputs"},
                                    {"activation_sparsity_scale", "activation_sparsity_scale"}};

/// Layers that are not sparse have the quantile of 0.
void put_cutoffs(const GgufKeys& keys, ordered_json& config) {
  const char* const name = "activation_sparsity_scale";
  const auto cutoffs = keys.find_numbers(name);
  if (!cutoffs) keys.fail(name, "is missing; the file does not describe the model");
  config[name] = ordered_json::array();
  for (const double deviations : *cutoffs) {
    if (deviations == -std::numeric_limits<double>::infinity()) config[name].push_back(nullptr);
    else if (std::isfinite(deviations)) config[name].push_back(deviations);
    else keys.fail(name, "must be finite, or minus infinity for no cut");
  }
}

void put(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  put_gemma(keys, config);
  put_gemma_layers(keys, config);
  put_cutoffs(keys, config);
  config["intermediate_size"] = keys.layer_sizes("feed_forward_length");
  config["rope_local_base_freq"] = keys.find_number("rope.freq_base_swa").value_or(10000.0);
  config["altup_num_inputs"] = keys.size("altup.num_inputs");
  config["altup_active_idx"] = keys.find_integer("altup.active_idx").value_or(0);
  config["laurel_rank"] = keys.rows("blk.0.laurel_l.weight");
  if (config["laurel_rank"] == 0) {
    keys.fail("embedding_length", "describes no model: the tensor blk.0.laurel_l.weight is missing");
  }
  if (config.contains("vocab_size")) config["vocab_size_per_layer_input"] = config["vocab_size"];
}

Json read(const Gguf& file) {
  return read_gguf_target(file, {"gemma3n_text", "Gemma3nForCausalLM", own_keys, own_fields, put, GgufLayers::uneven});
}

void write(const GgufModel& model, GgufKeyWriter& keys) {
  const auto scaled = model.config.find("altup_correct_scale");
  if (scaled && !scaled->boolean()) scaled->fail("must be true in a GGUF of gemma3n");
  if (model.logit_cap == 0) model.config.fail("must cap logits in a GGUF of gemma3n");
  write_gemma_layers(model, keys);
  keys.size("altup.active_idx", 0);
  keys.size("altup.num_inputs", model.streams);
  std::vector<float> cutoffs;
  for (const GgufModel::Layer& layer : model.layers) {
    cutoffs.push_back(static_cast<float>(layer.gate_cutoff.value_or(-std::numeric_limits<double>::infinity())));
  }
  keys.numbers("activation_sparsity_scale", cutoffs);
}

constexpr const char* model_types[] = {"gemma3n", "gemma3n_text"};
constexpr GgufNames names = {.whole = whole_names, .layer = layer_names};

}  // namespace

const GgufFamily gguf_gemma3n = {"gemma3n", model_types, names, read, write};

}  // namespace draftproof
