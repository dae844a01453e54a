// SPDX-License-Identifier: MIT
#include "ref/models/qwen2.h"

#include "ref/models/causal_transformer.h"

namespace draftproof {
namespace {

class Qwen2 final : public CausalTransformer {
 public:
  Qwen2(const WeightLoader& from, const TransformerConfig& description) : CausalTransformer(from, description) {
    for (int i = 0; i < layers(); ++i) {
      PreNormLayer& one = layers_.emplace_back(load_pre_norm_layer(from, config(), i, prefix(i)));
      load_qkv_bias(from, config().attention(i), prefix(i) + "self_attn.", one.attention);
    }
  }

 private:
  void layer(const TransformerPass& pass, int i) override {
    pass.see(i);
    pass.pre_norm_layer(config().attention(i), layers_[static_cast<std::size_t>(i)]);
  }

  std::vector<PreNormLayer> layers_;
};

}  // namespace

TransformerConfig describe_qwen2(const Json& json) { return read_target_config(json); }

std::unique_ptr<Model> load_qwen2(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Qwen2>(from, config);
}

}  // namespace draftproof
