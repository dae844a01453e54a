// SPDX-License-Identifier: MIT
#include "ref/models/llama.h"

#include "ref/models/causal_transformer.h"

namespace draftproof {
namespace {

class Llama final : public CausalTransformer {
 public:
  Llama(const WeightLoader& from, const TransformerConfig& description) : CausalTransformer(from, description) {
    for (int i = 0; i < layers(); ++i) layers_.push_back(load_pre_norm_layer(from, config(), i, prefix(i)));
    stretch_rope(from, rope(0));
  }

 private:
  void layer(const TransformerPass& pass, int i) override {
    pass.see(i);
    pass.pre_norm_layer(config().attention(i), layers_[static_cast<std::size_t>(i)]);
  }

  std::vector<PreNormLayer> layers_;
};

}  // namespace

TransformerConfig describe_llama(const Json& json) {
  TransformerConfig config = read_target_config(json);
  for (int i = 0; i < config.depth(); ++i) {
    if (config.attention(i).window != AttentionCache::everything) {
      json.fail("asks for sliding layers, which Llama does not have");
    }
  }
  return config;
}

std::unique_ptr<Model> load_llama(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Llama>(from, config);
}

}  // namespace draftproof
