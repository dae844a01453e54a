// SPDX-License-Identifier: MIT
// Jamba (Hugging Face and GGUF `jamba`): layers of Mamba-1 (selective_scan.h) and, every attn_layer_period of them, of
// attention without RoPE, each followed by SwiGLU or, every expert_layer_period layers, by experts whose weights are
// their shares of all experts' softmax. Source: transformers, models/jamba; llama.cpp's conversion of it.
#include <variant>

#include "ref/models/causal_transformer.h"
#include "ref/models/experts.h"
#include "ref/models/models.h"
#include "ref/models/selective_scan.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-6};
constexpr TensorNames tensors = {.norm = "model.final_layernorm.weight"};
constexpr ExpertNames expert_names = {.router = "router.weight"};
constexpr int taps_max = 64;  // no real convolution comes near it
constexpr int states_max = 1 << 12;
constexpr int width_max = 1 << 24;

class Jamba final : public CausalTransformer {
 public:
  Jamba(const WeightLoader& from, const TransformerConfig& description)
      : CausalTransformer(from, description, tensors) {
    for (int i = 0; i < layers(); ++i) {
      const LayerConfig& layer = config().layers[static_cast<std::size_t>(i)];
      Layer& weights = layers_.emplace_back();
      if (const auto* const shape = std::get_if<SelectiveScanShape>(&layer.mixer)) {
        weights.mixer = load_selective_scan(from, hidden(), *shape, prefix(i) + "mamba.");
      } else {
        weights.mixer = load_attention(from, config(), config().attention(i), prefix(i) + "self_attn.", hidden());
      }
      weights.mixer_norm = load_norm(from, config(), prefix(i) + "input_layernorm.weight", hidden());
      weights.mlp_norm = load_norm(from, config(), prefix(i) + "pre_ff_layernorm.weight", hidden());
      const std::string mlp = prefix(i) + "feed_forward.";
      if (layer.experts.count == 0) weights.mlp = load_mlp(from, hidden(), layer.intermediate, false, mlp);
      else weights.experts = load_experts(from, hidden(), layer.experts, mlp, expert_names);
    }
  }

 private:
  struct Layer {
    std::variant<AttentionWeights, SelectiveScanWeights> mixer;
    std::vector<float> mixer_norm, mlp_norm;  // [hidden]
    MlpWeights mlp;
    ExpertsWeights experts;  // instead of the MLP
  };

  void layer(const TransformerPass& pass, int i) override {
    const Layer& weights = layers_[static_cast<std::size_t>(i)];
    pass.normalize(weights.mixer_norm);
    if (const auto* const recurrent = std::get_if<SelectiveScanWeights>(&weights.mixer)) {
      selective_scan(pass, i, *recurrent, scan_);
    } else {
      pass.self_attention(i, std::get<AttentionWeights>(weights.mixer));
    }
    pass.add_projected();
    pass.normalize(weights.mlp_norm);
    feed_forward(pass, i, weights.mlp, weights.experts, experts_);
    pass.add_projected();
  }

  std::vector<Layer> layers_;
  SelectiveScanScratch scan_;
  ExpertsScratch experts_;
};

/// Returns which layers are every `period`-th one, from that at the offset on.
std::vector<bool> read_every(const Json& config, const char* period, const char* offset, int layers) {
  const std::int64_t every = config.at(period).integer(1, 1 << 16);
  const std::int64_t first = config.at(offset).integer(0, every - 1);
  std::vector<bool> chosen;
  for (int i = 0; i < layers; ++i) chosen.push_back(i % every == first);
  return chosen;
}

SelectiveScanShape read_scan(const Json& config, int hidden) {
  SelectiveScanShape shape;
  const std::int64_t channels = config.at("mamba_expand").integer(1, 1 << 10) * hidden;
  if (channels > width_max) config.at("mamba_expand").fail("makes a layer wider than any real model's");
  shape.channels = static_cast<int>(channels);
  shape.state_size = static_cast<int>(config.at("mamba_d_state").integer(1, states_max));
  shape.conv_width = static_cast<int>(config.at("mamba_d_conv").integer(2, taps_max));
  const auto rank = config.find("mamba_dt_rank");
  shape.step_rank = !rank || (rank->is_string() && rank->string() == "auto")
                        ? (hidden + 15) / 16
                        : static_cast<int>(rank->integer(1, width_max));
  refuse_if_set(config, "mamba_proj_bias", "biased projections are not implemented");
  const auto bias = config.find("mamba_conv_bias");
  if (bias && !bias->boolean()) bias->fail("a convolution without a bias is not implemented");
  return shape;
}

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_sizes(json, defaults);
  require_activation(json, "hidden_act", "silu");
  refuse_if_set(json, "sliding_window", "a window is not implemented");
  const AttentionLayer attention = {.shape = read_attention_shape(json, config.hidden),
                                    .rope = AttentionLayer::no_rope};
  const SelectiveScanShape scan = read_scan(json, config.hidden);
  const int intermediate = positive(json, "intermediate_size");
  const bool mixes = json.at("num_experts").integer(1, 1 << 16) > 1;
  const std::vector<bool> attends = read_every(json, "attn_layer_period", "attn_layer_offset", config.depth());
  const std::vector<bool> mixing = read_every(json, "expert_layer_period", "expert_layer_offset", config.depth());
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    LayerConfig& layer = config.layers[i];
    if (attends[i]) layer.mixer = attention;
    else layer.mixer = scan;
    if (mixes && mixing[i]) layer.experts = read_experts(json, "intermediate_size");
    else layer.intermediate = intermediate;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Jamba>(from, config);
}

constexpr ArchitectureName names[] = {{"jamba", "JambaForCausalLM"}};

}  // namespace

const Architecture jamba_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
