// SPDX-License-Identifier: MIT
// Llama 2 and 3 (Hugging Face `llama`): GQA without norms or biases, RoPE, from 3.1 on stretched ("llama3"), SwiGLU,
// tied or untied head, full layers. Source: transformers, models/llama.
#include "ref/models/causal_transformer.h"
#include "ref/models/models.h"

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

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json);
  for (int i = 0; i < config.depth(); ++i) {
    if (config.attention(i).window != AttentionCache::everything) {
      json.fail("asks for sliding layers, which Llama does not have");
    }
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Llama>(from, config);
}

constexpr ArchitectureName names[] = {{"llama", "LlamaForCausalLM"}};

}  // namespace

const Architecture llama_architecture = {
    .names = names, .describe = describe_model, .load = load, .mtp = &pre_norm_blocks};

}  // namespace draftproof
