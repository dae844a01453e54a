// SPDX-License-Identifier: MIT
// Ministral 3 (Hugging Face `ministral3`, alone or as the text part of `mistral3`): Mistral with yarn, whose queries
// grow behind each original context. Without llama_4_scaling_beta they do not (Mistral Small 3.1 has `mistral` in
// `mistral3`). Source: transformers, models/ministral3.
#include <variant>

#include "ref/models/decoder.h"
#include "ref/models/models.h"

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
  for (LayerConfig& layer : config.layers) std::get<AttentionLayer>(layer.mixer).growth = read_growth(text);
  set_window(text, read_window(text), config);
  return config;
}

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
  return load_pre_norm_decoder(from, config);
}

constexpr ArchitectureName names[] = {
    {"ministral3", "Ministral3ForCausalLM"},
    {"mistral3", "Mistral3ForConditionalGeneration"},
};

}  // namespace

const Architecture ministral3_architecture = {.names = names, .describe = describe_model, .load = load};

}  // namespace draftproof
