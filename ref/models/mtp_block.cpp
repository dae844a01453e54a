// SPDX-License-Identifier: MIT
#include "ref/models/mtp_block.h"

#include "ref/models/experts.h"

namespace draftproof {
namespace {

class PreNormBlock final : public MtpBlock {
 public:
  PreNormBlock(const WeightLoader& from, const TransformerConfig& config, int layer, const std::string& prefix)
      : weights_(load_pre_norm_layer(from, config, layer, prefix)) {
    if (config.attention(layer).qk_norm != QkNorm::none) {
      load_head_norms(from, config, config.attention(layer), prefix + "self_attn.", weights_.attention);
    }
    const Experts& experts = config.layers[static_cast<std::size_t>(layer)].experts;
    const bool several = from.weights.has(prefix + "mlp.shared_experts.down_proj.weight");  // of GLM, in one MLP
    const ExpertNames names = {.shared = several ? "shared_experts." : "shared_expert."};
    if (experts.count > 0) experts_ = load_experts(from, config.hidden, experts, prefix + "mlp.", names);
  }

  void compute(const TransformerPass& pass, int layer) override {
    const Experts& experts = pass.config.layers[static_cast<std::size_t>(layer)].experts;
    if (experts.count == 0) {
      pass.pre_norm_layer(pass.config.attention(layer), weights_);
      return;
    }
    pass.pre_norm_attention(pass.config.attention(layer), weights_);
    pass.normalize(weights_.mlp_norm);
    mix_experts(pass, experts, experts_, scratch_);
    pass.add_projected();
  }

 private:
  PreNormLayer weights_;
  ExpertsWeights experts_;  // instead of the MLP
  ExpertsScratch scratch_;
};

std::unique_ptr<MtpBlock> load_pre_norm_block(const WeightLoader& from, const TransformerConfig& config, int layer,
                                              const std::string& prefix) {
  return std::make_unique<PreNormBlock>(from, config, layer, prefix);
}

}  // namespace

TransformerConfig describe_like_last(const Checkpoint&, const TransformerConfig& model) {
  TransformerConfig config = model;
  config.layers = {model.layers.back()};
  return config;
}

const MtpBlocks pre_norm_blocks = {describe_like_last, load_pre_norm_block};

}  // namespace draftproof
