// SPDX-License-Identifier: MIT
#include "ref/models/qwen3.h"

#include "ref/models/causal_transformer.h"

namespace draftproof {
namespace {

class Qwen3 final : public CausalTransformer {
 public:
  Qwen3(const WeightLoader& from, const Json& json)
      : CausalTransformer(from, json, read_transformer_config(json), head_norm_names) {
    for (int i = 0; i < layers(); ++i) norms_.push_back(load_head_norms(from.weights, config(), prefix(i)));
  }

 private:
  void layer(const TransformerPass& pass, int i) const override {
    pass.project(weights(i));
    qk_norm_and_rope(pass, norms_[i]);
    pass.attention_and_mlp(weights(i));
  }

  std::vector<HeadNorms> norms_;  // of each layer
};

}  // namespace

std::unique_ptr<Model> load_qwen3(const WeightLoader& from, const Json& config) {
  return std::make_unique<Qwen3>(from, config);
}

}  // namespace draftproof
