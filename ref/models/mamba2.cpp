// SPDX-License-Identifier: MIT
// Mamba-2 (Hugging Face and GGUF `mamba2`): each layer is x = x + state_space(norm(x)) (state_space.h); there is no
// MLP. A text may have any length; the context is the number that llama.cpp writes. Source: transformers,
// models/mamba2; llama.cpp's conversion of it.
#include "ref/models/causal_transformer.h"
#include "ref/models/models.h"
#include "ref/models/state_space.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.context = 1 << 20, .epsilon = 1e-5, .epsilon_field = "layer_norm_epsilon"};
constexpr TensorNames tensors = {.embedding = "model.embeddings.weight", .norm = "model.norm_f.weight"};
constexpr StateSpaceFields fields = {.heads = "num_heads",
                                     .head_dim = "head_dim",
                                     .groups = "n_groups",
                                     .state_size = "state_size",
                                     .conv_width = "conv_kernel",
                                     .expand = "expand",
                                     .conv_bias = "use_conv_bias",
                                     .proj_bias = "use_bias"};

class Mamba2 final : public CausalTransformer {
 public:
  Mamba2(const WeightLoader& from, const TransformerConfig& description)
      : CausalTransformer(from, description, tensors) {
    for (int i = 0; i < layers(); ++i) {
      const auto& shape = std::get<StateSpaceShape>(config().layers[static_cast<std::size_t>(i)].mixer);
      layers_.push_back({load_norm(from, config(), prefix(i) + "norm.weight", hidden()),
                         load_state_space(from, hidden(), shape, prefix(i) + "mixer.")});
    }
  }

 private:
  struct Layer {
    std::vector<float> norm;  // [hidden]
    StateSpaceWeights mixer;
  };

  void layer(const TransformerPass& pass, int i) override {
    const Layer& weights = layers_[static_cast<std::size_t>(i)];
    pass.normalize(weights.norm);
    state_space(pass, i, weights.mixer, scratch_);
    pass.add_projected();
  }

  std::vector<Layer> layers_;
  StateSpaceScratch scratch_;
};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_sizes(json, defaults);
  require_activation(json, "hidden_act", "silu");
  const StateSpaceShape shape = read_state_space(json, config.hidden, fields);
  for (LayerConfig& layer : config.layers) layer.mixer = shape;
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Mamba2>(from, config);
}

constexpr ArchitectureName names[] = {{"mamba2", "Mamba2ForCausalLM"}};

}  // namespace

const Architecture mamba2_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
