// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <variant>

#include "ref/base/error.h"
#include "ref/formats/gguf/family.h"
#include "ref/formats/gguf/transformer.h"
#include "ref/formats/printable.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/dflash.h"
#include "ref/models/eagle3.h"
#include "ref/models/gemma4_assistant.h"
#include "ref/models/models.h"
#include "ref/models/mtp.h"
#include "ref/models/rope.h"
#include "ref/models/transformer_config.h"
#include "tools/convert/gguf_model.h"

namespace draftproof {
namespace {

GgufModel::Rope as_gguf(const Rope& rope) {
  GgufModel::Rope result = {.kind = rope.kind,
                            .theta = rope.theta,
                            .turned = 2 * rope.half(),
                            .magnitude = rope.factor,
                            .context = rope.context};
  if (rope.kind == "linear") {
    result.factor = double{default_rope(rope.theta, result.turned).frequencies[0]} / rope.frequencies[0];
  }
  return result;
}

GgufModel::Layer as_gguf(const LayerConfig& layer) {
  const Experts& experts = layer.experts;
  GgufModel::Layer result = {
      .attention = {},
      .intermediate = layer.intermediate,
      .gate_cutoff = layer.gate_cutoff,
      .experts = {experts.count, experts.chosen, experts.intermediate, experts.shared, experts.normalized}};
  if (const auto* const attention = std::get_if<AttentionLayer>(&layer.mixer)) {
    const AttentionShape& shape = attention->shape;
    static_assert(AttentionCache::everything == 0, "as in a GgufModel");
    result.attention = GgufModel::Attention{
        shape.heads,       shape.kv_heads, shape.head_dim, value_dim(shape),
        attention->window, shape.scale,    shape.cap,      attention->rope != AttentionLayer::no_rope};
  }
  return result;
}

GgufModel as_gguf(const Json& json, const TransformerConfig& config) {
  GgufModel model = {.config = json,
                     .find = [json](std::string_view name) { return json.find(name); },
                     .vocabulary = config.vocabulary,
                     .hidden = config.hidden,
                     .context = std::max(config.context, config.long_context),
                     .epsilon = config.epsilon,
                     .subtracts_mean = config.norm == Norm::layer,
                     .logit_scale = config.logit_scale,
                     .logit_cap = config.logit_cap,
                     .layer_embedding = config.layer_embedding,
                     .streams = config.streams,
                     .shared_layers = config.depth() - config.cached_layers()};
  for (const Rope& rope : config.ropes) model.ropes.push_back(as_gguf(rope));
  for (const LayerConfig& layer : config.layers) {
    model.layers.push_back(as_gguf(layer));
    if (const auto* const shape = std::get_if<RecurrentShape>(&layer.mixer)) {
      const DeltaShape& delta = shape->delta;
      model.recurrence = GgufModel::Recurrence{shape->conv_width, delta.key_dim, delta.key_heads, delta.value_heads,
                                               shape->value_floats()};
    }
    if (const auto* const shape = std::get_if<SelectiveScanShape>(&layer.mixer)) {
      model.recurrence =
          GgufModel::Recurrence{shape->conv_width, shape->state_size, shape->step_rank, 1, shape->channels};
    }
    if (const StateSpaceShape* const shape = find_state_space(layer)) {
      model.recurrence =
          GgufModel::Recurrence{shape->conv_width, shape->state_size, shape->groups, shape->heads, shape->inner()};
    }
  }
  return model;
}

/// The features of the target, of all tapped layers together, that a draft reads for a token.
std::int64_t fused_inputs(const Checkpoint& from) {
  const std::string name = from.has("model.fc.weight") ? "model.fc.weight" : "fc.weight";
  if (!from.has(name)) throw Error(from.path().string() + ": has no tensor fc.weight");
  return from.tensors().at(name).shape.back();
}

/// llama.cpp has no tensor of the target's head for a part of its tokens, and selectors are not read with one.
void require_head_of_part(const Checkpoint& from, const DFlashConfig& draft, const GgufFamily& family) {
  const auto part = from.config().find("draft_vocab_size");
  if (!part || draft.draft_vocabulary == draft.transformer.vocabulary) return;
  if (&family == &gguf_ik_dflash) part->fail("is of a vocabulary of the draft's own, which ik_llama.cpp does not read");
  if (!from.has("lm_head.weight")) part->fail("needs an LM head of the draft's own in a GGUF");
  if (draft.selector_rank > 0) part->fail("has no form in a GGUF beside a candidate selector");
}

std::optional<GgufModel::DSpark> describe_dspark(const Checkpoint& from, const DFlashConfig& draft) {
  const bool confident = draft.confident.value_or(has_confidence_head(from));
  if (!draft.from_anchor && draft.markov_rank == 0 && !confident) return {};
  if (confident && !draft.confidence_of_token) {
    from.config().fail("has a confidence head that does not read the token before, which has no form in a GGUF");
  }
  return GgufModel::DSpark{draft.from_anchor, draft.markov_rank > 0, confident};
}

GgufModel describe_draft(const Checkpoint& from, const GgufFamily& family) {
  const Json& json = from.config();
  if (const auto found = json.find("transformer_layer_config")) {
    found->fail("has no form in a GGUF, which has no word for windows of the anchor");
  }
  const DFlashConfig draft = describe_dflash(json);
  require_head_of_part(from, draft, family);
  GgufModel model = as_gguf(json, read_transformer_config(json));
  model.find = [json](std::string_view name) { return find_dflash_field(json, name); };
  model.target_features = [&from] { return fused_inputs(from); };
  model.dspark = describe_dspark(from, draft);
  return model;
}

GgufModel describe_eagle3_draft(const Checkpoint& from, int target_layers) {
  const Json& json = from.config();
  layer_config(json).at("vocab_size");  // a GGUF has the target's
  GgufModel model = as_gguf(layer_config(json), describe_eagle3(json).transformer);
  model.find = [json](std::string_view name) {
    const auto found = find_eagle3_field(json, name);
    return found ? found : layer_config(json).find(name);
  };
  if (target_layers == 0 && !model.find("eagle_aux_hidden_state_layer_ids")) {
    json.fail("names no eagle_aux_hidden_state_layer_ids; give the folder of the target with --tokenizer");
  }
  constexpr int any = 1 << 16;
  const auto counted = model.find("num_target_layers");
  const int layers = target_layers > 0 ? target_layers : counted ? static_cast<int>(counted->integer(1, any)) : any;
  for (const int tap : read_eagle3_taps(json, layers)) model.target_layers.push_back(tap + 1);
  model.target_features = [&from] { return fused_inputs(from); };
  return model;
}

GgufModel describe_target(const Checkpoint& from, const GgufFamily& family) {
  GgufModel model = as_gguf(text_config(from.config()), describe(from.config()));
  if (keeps_mtp_heads(family.names) && has_mtp_heads(from)) {
    model.mtp_heads = static_cast<int>(read_mtp_config(from).heads.size());
  }
  model.layer_numbers = [&from, layers = model.depth()](const std::string& tensor, const std::string& field) {
    std::vector<float> numbers;
    for (int i = 0; i < layers; ++i) {
      const std::string name = "model.layers." + std::to_string(i) + "." + tensor;
      const bool stored = from.has(name);
      numbers.push_back(stored ? from.floats(name, from.tensors().at(name).shape).at(0)
                               : static_cast<float>(from.config().at(field)[static_cast<std::size_t>(i)].number()));
    }
    return numbers;
  };
  if (checkpoint_kind(from.config()) == gemma4_assistant_checkpoint) {
    model.target_hidden = read_backbone_width(from.config());
  }
  return model;
}

}  // namespace

const GgufFamily& gguf_family_for(const Json& config, GgufReader reader) {
  const CheckpointKind& kind = checkpoint_kind(config);
  if (kind == dflash_checkpoint) return reader == GgufReader::ik_llama_cpp ? gguf_ik_dflash : gguf_dflash;
  if (kind == eagle3_checkpoint) return gguf_eagle3;
  if (kind == medusa_checkpoint) config.fail("is of Medusa heads, for which no GGUF has a form; use the folder");
  const Json type = config.at("model_type");
  const GgufFamily* const family = find_gguf_family(config);
  if (family == nullptr) type.fail("a GGUF of " + in_quotes(type.string()) + " cannot be written yet");
  return *family;
}

void add_model_fields(const Checkpoint& from, const GgufFamily& family, Format type, GgufFields& fields,
                      int target_layers) {
  fields.text("general.architecture", family.architecture);
  fields.text("general.name", from.path().filename().string());
  fields.size("general.file_type", gguf_file_type(type));
  fields.size("general.quantization_version", 2);
  GgufKeyWriter keys(family.architecture, fields);
  const CheckpointKind& kind = checkpoint_kind(from.config());
  family.write(kind == dflash_checkpoint   ? describe_draft(from, family)
               : kind == eagle3_checkpoint ? describe_eagle3_draft(from, target_layers)
                                           : describe_target(from, family),
               keys);
}

}  // namespace draftproof
