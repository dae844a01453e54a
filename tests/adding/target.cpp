// SPDX-License-Identifier: MIT
// The walk of docs/adding.md: a target. It is Qwen3 under another name.
#include "ref/models/causal_transformer.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

class RenamedQwen3 final : public CausalTransformer {
 public:
  RenamedQwen3(const WeightLoader& from, const TransformerConfig& description) : CausalTransformer(from, description) {
    for (int i = 0; i < layers(); ++i) {
      PreNormLayer& one = layers_.emplace_back(load_pre_norm_layer(from, config(), i, prefix(i)));
      load_head_norms(from, config(), config().attention(i), prefix(i) + "self_attn.", one.attention);
    }
  }

 private:
  void layer(const TransformerPass& pass, int i) override {
    pass.see(i);
    pass.pre_norm_layer(config().attention(i), layers_[static_cast<std::size_t>(i)]);
  }

  std::vector<PreNormLayer> layers_;
};

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<RenamedQwen3>(from, config);
}

constexpr ArchitectureName names[] = {{"renamed", "RenamedForCausalLM"}};

}  // namespace

const Architecture renamed_architecture = {.names = names, .describe = read_target_config, .load = load};

}  // namespace draftproof
