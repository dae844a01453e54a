// SPDX-License-Identifier: MIT
// Falcon-H1 (Hugging Face `falcon_h1`; GGUF `falcon-h1`): attention and Mamba-2 (state_space.h) of each layer read the
// same norm, and what both give is added; then comes SwiGLU. Factors multiply the embedding, the logits, keys, what
// attention and Mamba-2 read and give, each part that Mamba-2 projects, the gates and what the MLP gives. Factors of
// one linear map are multiplied with each other first. In a GGUF they are in the weights. Source: transformers,
// models/falcon_h1; llama.cpp's conversion of it.
#include <limits>

#include "ref/models/causal_transformer.h"
#include "ref/models/models.h"
#include "ref/models/state_space.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-5};
constexpr Features features = {.multipliers = true};
constexpr TensorNames tensors = {.norm = "model.final_layernorm.weight"};
constexpr StateSpaceFields fields = {.heads = "mamba_n_heads",
                                     .head_dim = "mamba_d_head",
                                     .groups = "mamba_n_groups",
                                     .state_size = "mamba_d_state",
                                     .conv_width = "mamba_d_conv",
                                     .expand = "mamba_expand",
                                     .conv_bias = "mamba_conv_bias",
                                     .proj_bias = "mamba_proj_bias",
                                     .inner = "mamba_d_ssm"};

bool says(const Json& config, const char* field, bool absent) {
  const auto value = config.find(field);
  return value ? value->boolean() : absent;
}

/// Reads a list of so many positive factors, all 1 where the field is missing.
template <std::size_t Count>
std::array<float, Count> read_factors(const Json& config, const char* field) {
  std::array<float, Count> factors;
  factors.fill(1);
  const auto list = config.find(field);
  if (!list) return factors;
  if (!list->is_array() || list->size() != Count) list->fail("must list " + std::to_string(Count) + " factors");
  for (std::size_t i = 0; i < Count; ++i) {
    factors[i] = static_cast<float>((*list)[i].number());
    if (!(factors[i] > 0 && factors[i] <= std::numeric_limits<float>::max())) {
      (*list)[i].fail("must be a positive float");
    }
  }
  return factors;
}

/// Of what the two mixers and the MLP of a layer add, of gates, and of what Mamba-2 projects.
struct Factors {
  float attention = 1;
  float state_space = 1;
  float mlp = 1;
  float gate = 1;
  std::array<float, 5> projected;

  explicit Factors(const Json& config)
      : attention(read_factor(config, "attention_in_multiplier") * read_factor(config, "attention_out_multiplier")),
        state_space(read_factor(config, "ssm_out_multiplier")),
        projected(read_factors<5>(config, "ssm_multipliers")) {
    const auto of_mlp = read_factors<2>(config, "mlp_multipliers");
    gate = of_mlp[0];
    mlp = of_mlp[1];
    for (float& factor : projected) factor *= read_factor(config, "ssm_in_multiplier");
  }
};

class FalconH1 final : public CausalTransformer {
 public:
  FalconH1(const WeightLoader& from, const TransformerConfig& description)
      : CausalTransformer(from, description, tensors), factors_(from.weights.config()) {
    const bool normed = says(from.weights.config(), "mamba_rms_norm", false);
    for (int i = 0; i < layers(); ++i) {
      const LayerConfig& layer = config().layers[static_cast<std::size_t>(i)];
      Layer& weights = layers_.emplace_back();
      weights.attention = load_attention(from, config(), config().attention(i), prefix(i) + "self_attn.", hidden());
      weights.state_space = load_state_space(from, hidden(), *layer.beside, prefix(i) + "mamba.", normed);
      weights.state_space.norm_first = says(from.weights.config(), "mamba_norm_before_gate", true);
      weights.state_space.factors = factors_.projected;
      weights.mlp = load_mlp(from, hidden(), layer.intermediate, false, prefix(i) + "feed_forward.");
      weights.mlp.gate_scale = factors_.gate;
      weights.mixer_norm = load_norm(from, config(), prefix(i) + "input_layernorm.weight", hidden());
      weights.mlp_norm = load_norm(from, config(), prefix(i) + "pre_ff_layernorm.weight", hidden());
    }
  }

 private:
  struct Layer {
    AttentionWeights attention;
    StateSpaceWeights state_space;
    MlpWeights mlp;
    std::vector<float> mixer_norm, mlp_norm;  // [hidden]
  };

  void layer(const TransformerPass& pass, int i) override {
    const Layer& weights = layers_[static_cast<std::size_t>(i)];
    pass.normalize(weights.mixer_norm);
    pass.self_attention(i, weights.attention);
    pass.add_projected(factors_.attention);
    state_space(pass, i, weights.state_space, scratch_);
    pass.add_projected(factors_.state_space);
    pass.normalize(weights.mlp_norm);
    pass.mlp(weights.mlp);
    pass.add_projected(factors_.mlp);
  }

  Factors factors_;
  std::vector<Layer> layers_;
  StateSpaceScratch scratch_;
};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_sizes(json, defaults, features);
  for (const char* field : {"attention_bias", "projectors_bias", "mlp_bias"}) {
    refuse_if_set(json, field, "biased projections are not implemented");
  }
  refuse_if_set(json, "final_logit_softcapping", "soft-capped logits are not implemented");
  require_activation(json, "hidden_act", "silu");
  refuse_partial_rotary(json);
  require_rope_theta(json);
  Factors{json};  // which refuses what is none
  says(json, "mamba_rms_norm", false);
  says(json, "mamba_norm_before_gate", true);
  config.embedding_scale = read_factor(json, "embedding_multiplier");
  config.logit_scale = read_factor(json, "lm_head_multiplier");
  AttentionLayer attention = {.shape = read_attention_shape(json, config.hidden)};
  const float read = read_factor(json, "attention_in_multiplier");
  attention.shape.scale *= read * read * read_factor(json, "key_multiplier");
  config.ropes = {read_rope(json, attention.shape.head_dim)};
  const StateSpaceShape state_space = read_state_space(json, config.hidden, fields);
  const int intermediate = positive(json, "intermediate_size");
  for (LayerConfig& layer : config.layers) {
    layer.mixer = attention;
    layer.beside = state_space;
    layer.intermediate = intermediate;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<FalconH1>(from, config);
}

constexpr ArchitectureName names[] = {{"falcon_h1", "FalconH1ForCausalLM"}};

}  // namespace

const Architecture falcon_h1_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
