// SPDX-License-Identifier: MIT
#include "ref/models/qwen3.h"

#include "ref/models/causal_transformer.h"

namespace draftproof {
namespace {

class Qwen3 final : public CausalTransformer {
 public:
  Qwen3(const Loading& from, const Json& json)
      : CausalTransformer(from, json, read_transformer_config(json), head_norm_names) {
    for (int i = 0; i < layers(); ++i) norms_.push_back(load_head_norms(from.weights, config(), prefix(i)));
  }

 private:
  void layer(const TransformerPass& pass, int i, AttentionCache& memory) const override {
    pass.project(weights(i));
    norm_and_turn(pass, norms_[static_cast<std::size_t>(i)]);
    pass.attend_and_feed(weights(i), memory);
  }

  std::vector<HeadNorms> norms_;  // of each layer
};

}  // namespace

std::unique_ptr<Model> load_qwen3(const Loading& from, const Json& config) {
  return std::make_unique<Qwen3>(from, config);
}

}  // namespace draftproof
