// SPDX-License-Identifier: MIT
// Granite 4 with state space layers (Hugging Face `granitemoehybrid`; GGUF `granitehybrid`): layers of Mamba-2
// (state_space.h) and, as layer_types says, of attention, without RoPE unless position_embedding_type says so. Each is
// followed by an MLP that every row goes through and, in models that have them, experts beside it. The factors are
// those of Granite (granite.cpp). Source: transformers, models/granitemoehybrid; llama.cpp's conversion of it.
#include <utility>
#include <variant>

#include "kernels/threads.h"
#include "ref/models/causal_transformer.h"
#include "ref/models/experts.h"
#include "ref/models/models.h"
#include "ref/models/state_space.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-6};
constexpr Features features = {.multipliers = true};
constexpr StateSpaceFields fields = {.heads = "mamba_n_heads",
                                     .head_dim = "mamba_d_head",
                                     .groups = "mamba_n_groups",
                                     .state_size = "mamba_d_state",
                                     .conv_width = "mamba_d_conv",
                                     .expand = "mamba_expand",
                                     .conv_bias = "mamba_conv_bias",
                                     .proj_bias = "mamba_proj_bias"};
constexpr ExpertNames folder_experts = {
    .router = "router.layer.weight", .experts = "", .down = "output_linear.weight", .joined = "input_linear.weight"};

/// A folder has gate and up in one tensor, a GGUF apart, under the names of the translation.
MlpWeights load_shared_mlp(const WeightLoader& from, int hidden, int intermediate, const std::string& prefix) {
  const std::string joined = prefix + "input_linear.weight";
  if (!from.weights.has(joined)) return load_mlp(from, hidden, intermediate, false, prefix);
  MlpWeights weights;
  weights.gate_up = load_matrix(from, {{joined, 2 * intermediate}}, hidden);
  weights.down = load_matrix(from, {{prefix + "output_linear.weight", hidden}}, intermediate);
  return weights;
}

class GraniteHybrid final : public CausalTransformer {
 public:
  GraniteHybrid(const WeightLoader& from, const TransformerConfig& description) : CausalTransformer(from, description) {
    const bool folder = from.weights.metadata() == nullptr;
    for (int i = 0; i < layers(); ++i) {
      const LayerConfig& layer = config().layers[static_cast<std::size_t>(i)];
      Layer& weights = layers_.emplace_back();
      if (const auto* const shape = std::get_if<StateSpaceShape>(&layer.mixer)) {
        weights.mixer = load_state_space(from, hidden(), *shape, prefix(i) + "mamba.");
      } else {
        weights.mixer = load_attention(from, config(), config().attention(i), prefix(i) + "self_attn.", hidden());
      }
      weights.mixer_norm = load_norm(from, config(), prefix(i) + "input_layernorm.weight", hidden());
      weights.mlp_norm = load_norm(from, config(), prefix(i) + "post_attention_layernorm.weight", hidden());
      weights.shared = load_shared_mlp(from, hidden(), layer.intermediate, prefix(i) + "shared_mlp.");
      if (layer.experts.count == 0) continue;
      weights.experts = load_experts(from, hidden(), layer.experts, prefix(i) + "block_sparse_moe.",
                                     folder ? folder_experts : ExpertNames{.router = folder_experts.router});
    }
  }

 private:
  struct Layer {
    std::variant<AttentionWeights, StateSpaceWeights> mixer;
    std::vector<float> mixer_norm, mlp_norm;  // [hidden]
    MlpWeights shared;
    ExpertsWeights experts;
  };

  void layer(const TransformerPass& pass, int i) override {
    const Layer& weights = layers_[static_cast<std::size_t>(i)];
    pass.normalize(weights.mixer_norm);
    if (const auto* const recurrent = std::get_if<StateSpaceWeights>(&weights.mixer)) {
      state_space(pass, i, *recurrent, state_space_);
    } else {
      pass.self_attention(i, std::get<AttentionWeights>(weights.mixer));
    }
    pass.add_projected();
    pass.normalize(weights.mlp_norm);
    const Experts& experts = config().layers[static_cast<std::size_t>(i)].experts;
    if (experts.count == 0) {
      pass.mlp(weights.shared);
    } else {
      mix_experts(pass, experts, weights.experts, experts_);
      add_shared(pass, weights.shared);
    }
    pass.add_projected();
  }

  /// projected += shared(normed)
  void add_shared(const TransformerPass& pass, const MlpWeights& weights) {
    const int width = pass.config.hidden;
    pass.mlp(weights, pass.scratch.normed.data(), pass.rows, experts_.out.data());  // which the experts are done with
    for_rows(pass.rows, 2.0 * pass.rows * width, [&](int begin, int end) {
      const std::ptrdiff_t first = std::ptrdiff_t{begin} * width;
      const auto count = static_cast<std::size_t>(end - begin) * static_cast<std::size_t>(width);
      pass.kernels.add(experts_.out.data() + first, count, pass.scratch.projected.data() + first);
    });
  }

  std::vector<Layer> layers_;
  StateSpaceScratch state_space_;
  ExpertsScratch experts_;
};

/// Whether each layer has attention; the others recur.
std::vector<bool> read_kinds(const Json& config, int layers) {
  const Json types = config.at("layer_types");
  if (!types.is_array() || types.size() != static_cast<std::size_t>(layers)) {
    types.fail("must list one type for each of the " + std::to_string(layers) + " layers");
  }
  std::vector<bool> attention;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Json type = types[i];
    const std::string& name = type.string();
    attention.push_back(name == "attention" || name == "full_attention");
    if (!attention.back() && name != "mamba" && name != "linear_attention") {
      type.fail("layer type '" + name + "' is not part of this architecture");
    }
  }
  return attention;
}

int read_rope_of_layers(const Json& config) {
  const auto kind = config.find("position_embedding_type");
  if (!kind || kind->string() == "nope") return AttentionLayer::no_rope;
  if (kind->string() != "rope") kind->fail("must be 'rope' or 'nope', but is '" + kind->string() + "'");
  return 0;
}

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_sizes(json, defaults, features);
  refuse_if_set(json, "logit_scale", "is not implemented; Granite has logits_scaling");
  refuse_if_set(json, "attention_bias", "biased projections are not implemented");
  refuse_if_set(json, "final_logit_softcapping", "soft-capped logits are not implemented");
  require_activation(json, "hidden_act", "silu");
  refuse_partial_rotary(json);
  config.embedding_scale = read_factor(json, "embedding_multiplier");
  config.residual_scale = read_factor(json, "residual_multiplier");
  config.logit_scale = 1 / read_factor(json, "logits_scaling");
  AttentionLayer attention = {.shape = read_attention_shape(json, config.hidden), .rope = read_rope_of_layers(json)};
  attention.shape.scale = read_factor(json, "attention_multiplier");
  config.ropes = {read_rope(json, attention.shape.head_dim)};
  const StateSpaceShape state_space = read_state_space(json, config.hidden, fields);
  Experts experts;
  const auto count = json.find("num_local_experts");
  if (!count || count->integer(0, 1 << 16) > 0) {
    experts = read_experts(json, "intermediate_size");
    experts.normalized = true;
  }
  const int shared = positive(json, "shared_intermediate_size");
  const std::vector<bool> kinds = read_kinds(json, config.depth());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    LayerConfig& layer = config.layers[i];
    layer.intermediate = shared;
    layer.experts = experts;
    if (kinds[i]) layer.mixer = attention;
    else layer.mixer = state_space;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<GraniteHybrid>(from, config);
}

constexpr ArchitectureName names[] = {{"granitemoehybrid", "GraniteMoeHybridForCausalLM"}};

}  // namespace

const Architecture granite_hybrid_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
