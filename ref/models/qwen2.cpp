// SPDX-License-Identifier: MIT
#include "ref/models/qwen2.h"

#include "ref/models/causal_transformer.h"

namespace draftproof {
namespace {

class Qwen2 final : public CausalTransformer {
 public:
  Qwen2(const WeightLoader& from, const TransformerConfig& description) : CausalTransformer(from, description) {
    for (int i = 0; i < layers(); ++i) layers_.push_back(load_pre_norm_layer(from, config(), i, prefix(i)));
  }

 private:
  void layer(const TransformerPass& pass, int i) override {
    pass.see(i);
    pass.pre_norm_layer(config().attention(i), layers_[static_cast<std::size_t>(i)]);
  }

  std::vector<PreNormLayer> layers_;
};

}  // namespace

TransformerConfig describe_qwen2(const Json& json) {
  TransformerConfig config = read_target_config(json);
  for (LayerConfig& layer : config.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    if (attention.output_bias) json.at("attention_bias").fail("is not implemented; Qwen2 has biases of q, k and v");
    attention.qkv_bias = true;
  }
  return config;
}

std::unique_ptr<Model> load_qwen2(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Qwen2>(from, config);
}

}  // namespace draftproof
