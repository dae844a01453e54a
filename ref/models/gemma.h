// SPDX-License-Identifier: MIT
// What the generations of Gemma share: the fields of their configs, and layers with a norm before and one after
// attention and MLP. The MLPs have GELU for SiLU, and the embedding is multiplied by the square root of its width.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "ref/formats/json.h"
#include "ref/models/decoder.h"
#include "ref/models/model.h"
#include "ref/models/transformer.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// Throws Error when model_type is there and none of these.
void require_model_type(const Json& config, std::initializer_list<const char*> known);

/// Reads sizes, activation and the cap of the logits. `logit_cap`: where the field is missing; null means none.
TransformerConfig read_gemma_config(const Json& config, const Defaults& defaults, float logit_cap);

/// Reads a cap: a positive number, 0 when the field is null, `default_value` when it is missing.
float read_cap(const Json& config, std::string_view field, float default_value);

/// Reads sliding_window, which is `default_value` when it is missing.
int read_gemma_window(const Json& config, int default_value);

/// Reads query_pre_attn_scalar; the scale of scores is 1 / sqrt of it.
float read_score_scale(const Json& config);

/// Makes the last num_kv_shared_layers layers read the keys and values of the last layer before them that slides as
/// they do. Throws Error when there is none, or when its heads differ.
void share_keys(const Json& json, TransformerConfig& config);

/// What norms add to the stored weights: 1, but nothing to those of GGUF files, where it is added already.
float read_norm_offset(const Json& config);

struct GemmaLayer {
  AttentionWeights attention;
  MlpWeights mlp;
  std::vector<float> attention_norm;  // [hidden], "input_layernorm"
  std::vector<float> attended_norm;   // [hidden], "post_attention_layernorm"
  std::vector<float> mlp_norm;        // [hidden], "pre_feedforward_layernorm"
  std::vector<float> mlp_out_norm;    // [hidden], "post_feedforward_layernorm"
};

/// Loads layer `i` of the config. `prefix` is everything before "self_attn.".
GemmaLayer load_gemma_layer(const WeightLoader& from, const TransformerConfig& config, int i,
                            const std::string& prefix);

/// hidden_states += norm(attention(norm(hidden_states)))
void gemma_attention(const TransformerPass& pass, int i, const GemmaLayer& weights);

/// hidden_states += norm(MLP(norm(hidden_states)))
void gemma_mlp(const TransformerPass& pass, const GemmaLayer& weights);

/// x [rows][hidden] *= factor
void multiply(const TransformerPass& pass, float factor, float* x);

/// The names of Gemma 2 and 3.
inline constexpr DecoderNames gemma_names = {.mlp_norm = "pre_feedforward_layernorm"};

}  // namespace draftproof
