// SPDX-License-Identifier: MIT
// Qwen2 and Qwen2.5, dense (Hugging Face `qwen2`): GQA with biases on q, k and v and on nothing else, RoPE, SwiGLU,
// tied or untied head, full layers or, late in the stack, sliding ones. Source: transformers, models/qwen2.
#include "ref/models/causal_transformer.h"
#include "ref/models/models.h"

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

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json);
  for (LayerConfig& layer : config.layers) {
    auto& attention = std::get<AttentionLayer>(layer.mixer);
    if (attention.output_bias) json.at("attention_bias").fail("is not implemented; Qwen2 has biases of q, k and v");
    attention.qkv_bias = true;
  }
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Qwen2>(from, config);
}

constexpr ArchitectureName names[] = {{"qwen2", "Qwen2ForCausalLM"}};

}  // namespace

const Architecture qwen2_architecture = {
    .names = names, .describe = describe_model, .load = load, .mtp = &pre_norm_blocks};

}  // namespace draftproof
