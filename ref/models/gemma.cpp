// SPDX-License-Identifier: MIT
#include "ref/models/gemma.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "ref/models/causal_transformer.h"

namespace draftproof {
namespace {

constexpr std::int64_t window_max = 1 << 24;           // no real context comes near it
constexpr double default_query_pre_attn_scalar = 256;  // transformers' of Gemma 2 and Gemma 3

}  // namespace

void require_model_type(const Json& config, std::initializer_list<const char*> known) {
  const auto type = config.find("model_type");
  if (!type || std::ranges::find(known, type->string()) != known.end()) return;
  type->fail("'" + type->string() + "' is not implemented as the text part");
}

TransformerConfig read_gemma_config(const Json& config, const Defaults& defaults, float logit_cap) {
  TransformerConfig result = read_sizes(config, defaults);
  for (const char* field : {"hidden_activation", "hidden_act"}) require_activation(config, field, "gelu_pytorch_tanh");
  refuse_partial_rotary(config);
  refuse_if_set(config, "attention_bias", "biased projections are not implemented");
  result.activation = Activation::gelu;
  result.embedding_scale = std::sqrt(static_cast<float>(result.hidden));
  result.logit_cap = read_cap(config, "final_logit_softcapping", logit_cap);
  return result;
}

float read_cap(const Json& config, std::string_view field, float default_value) {
  const auto value = config.find(field);
  if (!value) return config.has(field) ? 0 : default_value;
  const auto cap = static_cast<float>(value->number());
  if (!(cap > 0 && cap <= std::numeric_limits<float>::max())) value->fail("must be a positive float");
  return cap;
}

int read_gemma_window(const Json& config, int default_value) {
  if (!config.has("sliding_window")) return default_value;
  return static_cast<int>(std::min(config.at("sliding_window").integer(1, std::int64_t{1} << 40), window_max));
}

float read_score_scale(const Json& config) {
  const auto scalar = config.find("query_pre_attn_scalar");
  const double number = scalar ? scalar->number() : default_query_pre_attn_scalar;
  if (!(number > 0 && number <= std::numeric_limits<float>::max())) scalar->fail("must be a positive float");
  return static_cast<float>(1 / std::sqrt(number));
}

void share_keys(const Json& json, TransformerConfig& config) {
  const auto field = json.find("num_kv_shared_layers");
  const int owners = config.depth() - (field ? static_cast<int>(field->integer(0, config.depth() - 1)) : 0);
  const auto attention = [&](int i) -> AttentionLayer& {
    return std::get<AttentionLayer>(config.layers[static_cast<std::size_t>(i)].mixer);
  };
  for (int i = owners; i < config.depth(); ++i) {
    int donor = owners - 1;
    while (donor >= 0 && attention(donor).window != attention(i).window) --donor;
    if (donor < 0) field->fail("leaves no layer of the kind of layer " + std::to_string(i) + " with keys of its own");
    const AttentionShape& from = attention(donor).shape;
    const AttentionShape& to = attention(i).shape;
    if (from.head_dim != to.head_dim || from.kv_heads != to.kv_heads) {
      field->fail("makes layer " + std::to_string(i) + " read keys of other heads, those of layer " +
                  std::to_string(donor));
    }
    attention(i).donor = donor;
    for (const char* part : {"k_proj.", "v_proj.", "k_norm.", "v_norm."}) {  // published files have them all the same
      config.unused.push_back("model.layers." + std::to_string(i) + ".self_attn." + part);
    }
  }
}

float read_norm_offset(const Json& config) {
  const auto offset = config.find("norm_offset");
  return offset ? static_cast<float>(offset->number()) : 1;
}

GemmaLayer load_gemma_layer(const WeightLoader& from, const TransformerConfig& config, int i,
                            const std::string& prefix) {
  const auto norm = [&](const char* name) { return load_norm(from, config, prefix + name + ".weight", config.hidden); };
  GemmaLayer weights;
  weights.attention = load_attention(from, config, config.attention(i), prefix + "self_attn.", config.hidden);
  weights.mlp = load_mlp(from, config.hidden, config.layers.at(static_cast<std::size_t>(i)).intermediate, false,
                         prefix + "mlp.", config.layers.at(static_cast<std::size_t>(i)).gate_cutoff.has_value());
  weights.attention_norm = norm("input_layernorm");
  weights.attended_norm = norm("post_attention_layernorm");
  weights.mlp_norm = norm("pre_feedforward_layernorm");
  weights.mlp_out_norm = norm("post_feedforward_layernorm");
  return weights;
}

void gemma_attention(const TransformerPass& pass, int i, const GemmaLayer& weights) {
  pass.normalize(weights.attention_norm);
  pass.self_attention(i, weights.attention);
  pass.normalize_projected(weights.attended_norm);
  pass.add_projected();
}

void gemma_mlp(const TransformerPass& pass, const GemmaLayer& weights) {
  pass.normalize(weights.mlp_norm);
  pass.mlp(weights.mlp);
  pass.normalize_projected(weights.mlp_out_norm);
  pass.add_projected();
}

void multiply(const TransformerPass& pass, float factor, float* x) {
  const int hidden = pass.config.hidden;
  for_rows(pass.rows, 2.0 * pass.rows * hidden, [&](int begin, int end) {
    const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(end) * hidden;
    for (std::ptrdiff_t k = static_cast<std::ptrdiff_t>(begin) * hidden; k < last; ++k) x[k] *= factor;
  });
}

}  // namespace draftproof
