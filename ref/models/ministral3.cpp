// SPDX-License-Identifier: MIT
// Ministral 3 (Hugging Face `ministral3`, alone or as the text part of `mistral3`): Mistral with yarn, whose queries
// grow (query_growth.h) behind each original context. Without llama_4_scaling_beta they do not (Mistral Small 3.1 has
// `mistral` in `mistral3`). Source: transformers, models/ministral3.
#include "ref/models/causal_transformer.h"
#include "ref/models/models.h"
#include "ref/models/query_growth.h"

namespace draftproof {
namespace {

QueryGrowth read_growth(const Json& text) {
  const auto block = text.find("rope_parameters");
  const auto beta = block ? block->find("llama_4_scaling_beta") : std::nullopt;
  if (!beta) return {};
  const double number = beta->number();
  if (!(number >= 0 && number <= 1)) beta->fail("must lie between 0 and 1");
  return {.beta = number, .step = block->at("original_max_position_embeddings").integer(1, 1 << 30)};
}

TransformerConfig describe_text(const Json& text) {
  TransformerConfig config = read_transformer_config(text);
  if (const auto cap = text.find("final_logit_softcapping")) cap->fail("soft-capped logits are not implemented");
  read_growth(text);
  set_window(text, read_window(text), config);
  return config;
}

class Ministral3 final : public CausalTransformer {
 public:
  Ministral3(const WeightLoader& from, const TransformerConfig& description)
      : CausalTransformer(from, description), growth_(read_growth(text_config(from.weights.config()))) {
    for (int i = 0; i < layers(); ++i) layers_.push_back(load_pre_norm_layer(from, config(), i, prefix(i)));
  }

 private:
  void layer(const TransformerPass& pass, int i) override {
    const AttentionLayer& attention = config().attention(i);
    const PreNormLayer& weights = layers_[static_cast<std::size_t>(i)];
    pass.see(i);
    pass.normalize(weights.attention_norm);
    pass.project(attention, weights.attention);
    grow_queries(pass, attention, growth_);
    pass.attend(attention, weights.attention);
    pass.project_attended(weights.attention);
    pass.add_projected();
    pass.normalize(weights.mlp_norm);
    pass.mlp(weights.mlp);
    pass.add_projected();
  }

  std::vector<PreNormLayer> layers_;
  QueryGrowth growth_;
};

TransformerConfig describe_model(const Json& json) {
  const Json text = text_config(json);
  const Json type = text.at("model_type");
  if (type.string() != "ministral3" && type.string() != "mistral") {
    type.fail("is not implemented as the text part; only 'ministral3' and 'mistral' are");
  }
  TransformerConfig config = type.string() == "mistral" ? mistral_architecture.describe(text) : describe_text(text);
  config.unused = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."};
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Ministral3>(from, config);
}

constexpr ArchitectureName names[] = {
    {"ministral3", "Ministral3ForCausalLM"},
    {"mistral3", "Mistral3ForConditionalGeneration"},
};

}  // namespace

const Architecture ministral3_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
