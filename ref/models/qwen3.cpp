// SPDX-License-Identifier: MIT
// Qwen3, dense (Hugging Face `qwen3`): GQA with per-head q and k norms, RoPE, SwiGLU, tied or untied head, full or
// sliding layers. Source: transformers, models/qwen3.
#include "ref/models/causal_transformer.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

class Qwen3 final : public CausalTransformer {
 public:
  Qwen3(const WeightLoader& from, const TransformerConfig& description) : CausalTransformer(from, description) {
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

TransformerConfig describe_model(const Json& json) { return read_target_config(json); }

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Qwen3>(from, config);
}

constexpr ArchitectureName names[] = {{"qwen3", "Qwen3ForCausalLM"}};

}  // namespace

const Architecture qwen3_architecture = {
    .names = names, .describe = describe_model, .load = load, .mtp = &head_norm_blocks};

}  // namespace draftproof
