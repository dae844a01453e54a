// SPDX-License-Identifier: MIT
// Qwen3-MoE (Hugging Face `qwen3_moe`): Qwen3 whose MLPs are experts, in all layers but those that mlp_only_layers and
// decoder_sparse_step leave out. Without use_sliding_window no layer slides, with it all do. Source: transformers,
// models/qwen3_moe.
#include <algorithm>

#include "ref/models/causal_transformer.h"
#include "ref/models/experts.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

class Qwen3Moe final : public CausalTransformer {
 public:
  Qwen3Moe(const WeightLoader& from, const TransformerConfig& description) : CausalTransformer(from, description) {
    for (int i = 0; i < layers(); ++i) {
      PreNormLayer& one = layers_.emplace_back(load_pre_norm_layer(from, config(), i, prefix(i)));
      load_head_norms(from, config(), config().attention(i), prefix(i) + "self_attn.", one.attention);
      const Experts& experts = experts_of(i);
      experts_.push_back(experts.count == 0 ? ExpertsWeights()
                                            : load_experts(from, hidden(), experts, prefix(i) + "mlp."));
    }
  }

 private:
  const Experts& experts_of(int i) const { return config().layers[static_cast<std::size_t>(i)].experts; }

  void layer(const TransformerPass& pass, int i) override {
    const PreNormLayer& weights = layers_[static_cast<std::size_t>(i)];
    pass.see(i);
    pass.pre_norm_attention(config().attention(i), weights);
    pass.normalize(weights.mlp_norm);
    const Experts& experts = experts_of(i);
    if (experts.count == 0) pass.mlp(weights.mlp);
    else mix_experts(pass, experts, experts_[static_cast<std::size_t>(i)], scratch_);
    pass.add_projected();
  }

  std::vector<PreNormLayer> layers_;
  std::vector<ExpertsWeights> experts_;  // of each layer; empty where it has an MLP
  ExpertsScratch scratch_;
};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json);
  const auto use = json.find("use_sliding_window");
  const bool slides = use && use->boolean();
  if (slides && !json.find("sliding_window")) {
    use->fail("asks for sliding attention, but sliding_window is absent");
  }
  set_window(json, slides ? read_window(json) : AttentionCache::everything, config);

  Experts experts = read_experts(json);
  const auto normalized = json.find("norm_topk_prob");
  experts.normalized = normalized && normalized->boolean();
  const auto step = json.find("decoder_sparse_step");
  const std::int64_t every = step ? step->integer(1, config.depth()) : 1;
  const auto dense = json.find("mlp_only_layers");
  std::vector<std::int64_t> only;
  if (dense) only = dense->integers(0, config.depth() - 1);
  for (int i = 0; i < config.depth(); ++i) {
    LayerConfig& layer = config.layers[static_cast<std::size_t>(i)];
    if ((i + 1) % every != 0 || std::ranges::find(only, i) != only.end()) continue;
    layer.experts = experts;
    layer.intermediate = 0;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Qwen3Moe>(from, config);
}

constexpr ArchitectureName names[] = {{"qwen3_moe", "Qwen3MoeForCausalLM"}};

}  // namespace

const Architecture qwen3_moe_architecture = {
    .names = names, .describe = describe_model, .load = load, .mtp = &head_norm_blocks};

}  // namespace draftproof
