// SPDX-License-Identifier: MIT
#include "ref/models/models.h"

#include <limits>
#include <set>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/models/dflash.h"
#include "ref/models/eagle3.h"
#include "ref/models/gemma2.h"
#include "ref/models/gemma3.h"
#include "ref/models/gemma4.h"
#include "ref/models/gemma4_assistant.h"
#include "ref/models/llama.h"
#include "ref/models/memory.h"
#include "ref/models/ministral3.h"
#include "ref/models/mistral.h"
#include "ref/models/qwen2.h"
#include "ref/models/qwen3.h"
#include "ref/models/qwen3_moe.h"
#include "ref/models/qwen35.h"

namespace draftproof {

std::span<const Architecture> all_architectures() noexcept {
  static constexpr Architecture list[] = {
      {"qwen3", "Qwen3ForCausalLM", describe_qwen3, load_qwen3, &head_norm_blocks},
      {"qwen2", "Qwen2ForCausalLM", describe_qwen2, load_qwen2, &pre_norm_blocks},
      {"qwen3_moe", "Qwen3MoeForCausalLM", describe_qwen3_moe, load_qwen3_moe, &head_norm_blocks},
      {"qwen3_5", "Qwen3_5ForConditionalGeneration", describe_qwen35, load_qwen35, &qwen35_blocks},
      {"qwen3_5_text", "Qwen3_5ForCausalLM", describe_qwen35, load_qwen35, &qwen35_blocks},
      {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", describe_qwen35, load_qwen35, &qwen35_blocks},
      {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", describe_qwen35, load_qwen35, &qwen35_blocks},
      {"llama", "LlamaForCausalLM", describe_llama, load_llama, &pre_norm_blocks},
      {"mistral", "MistralForCausalLM", describe_mistral, load_llama, &pre_norm_blocks},
      {"ministral3", "Ministral3ForCausalLM", describe_ministral3, load_ministral3},
      {"mistral3", "Mistral3ForConditionalGeneration", describe_ministral3, load_ministral3},
      {"gemma2", "Gemma2ForCausalLM", describe_gemma2, load_gemma2},
      {"gemma3_text", "Gemma3ForCausalLM", describe_gemma3, load_gemma3},
      {"gemma3", "Gemma3ForConditionalGeneration", describe_gemma3, load_gemma3},
      {"gemma4_text", "Gemma4ForCausalLM", describe_gemma4, load_gemma4},
      {"gemma4", "Gemma4ForConditionalGeneration", describe_gemma4, load_gemma4},
      {"gemma4_unified_text", "Gemma4UnifiedForCausalLM", describe_gemma4, load_gemma4},
      {"gemma4_unified", "Gemma4UnifiedForConditionalGeneration", describe_gemma4, load_gemma4},
  };
  return list;
}

const Architecture& architecture_of(const Json& config) {
  if (!config.is_object()) config.fail("must be a JSON object");
  if (is_gemma4_assistant(config)) config.fail("is an assistant of Gemma 4; name it as the draft of one, mtp:PATH");
  const std::string type = config.at("model_type").string();
  const auto architectures = config.find("architectures");
  const std::string architecture =
      architectures && architectures->is_array() && architectures->size() > 0 ? (*architectures)[0].string() : "";
  std::string known;
  for (const Architecture& row : all_architectures()) {
    if (type == row.model_type && (architecture.empty() || architecture == row.architecture)) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.architecture);
  }
  config.fail("architecture '" + (architecture.empty() ? type : architecture) +
              "' is not a target draftproof knows; it knows the targets " + known +
              ", and as drafts DFlashDraftModel, DFlash2DraftModel, LlamaForCausalLMEagle3, Eagle3LlamaForCausalLM and "
              "the assistants of Gemma 4");
}

TransformerConfig describe(const Json& config) {
  if (is_dflash(config)) return describe_dflash(config).transformer;
  if (is_eagle3(config)) return describe_eagle3(config);
  if (is_gemma4_assistant(config)) return describe_gemma4_assistant(config);
  return architecture_of(config).describe(config);
}

TransformerConfig describe(const Checkpoint& files, const LoadOptions& options) {
  TransformerConfig config = describe(files.config());
  if (options.layers == 0) return config;
  if (options.layers > config.depth() || config.layer_embedding > 0) {
    throw Error(files.path().string() + ": cannot be loaded with " + std::to_string(options.layers) + " layers; " +
                (config.layer_embedding > 0 ? "its embeddings are for all of them"
                                            : "it has " + std::to_string(config.depth())));
  }
  for (int i = options.layers; i < config.depth(); ++i) {
    config.unused.push_back("model.layers." + std::to_string(i) + ".");
  }
  config.layers.resize(static_cast<std::size_t>(options.layers));
  return config;
}

std::unique_ptr<Model> load_model(const Checkpoint& files, const LoadOptions& options) {
  const Architecture& architecture = architecture_of(files.config());
  const TransformerConfig config = describe(files, options);
  const std::string why = shortage(files.path().string(), model_need(files, options).total(0), memory_available());
  if (!why.empty()) throw Error(why);
  const WeightLoader from(files, options);
  auto model = architecture.load(from, config);
  from.finish(config.unused);
  return model;
}

namespace {

/// The field that holds the ids of the stop tokens, if there is one.
std::optional<Json> find_stop_field(const Checkpoint& files) {
  const std::filesystem::path generation = files.path() / "generation_config.json";
  if (files.metadata() == nullptr && is_present(generation)) {
    if (auto field = Json::read(generation).find("eos_token_id")) return field;
  }
  const auto outer = files.config().find("eos_token_id");
  return outer ? outer : text_config(files.config()).find("eos_token_id");
}

}  // namespace

std::vector<Token> read_stop_tokens(const Checkpoint& files) {
  const auto field = find_stop_field(files);
  if (!field) return {};
  constexpr std::int64_t most = std::numeric_limits<Token>::max();
  if (!field->is_array()) return {static_cast<Token>(field->integer(0, most))};
  std::set<Token> stops;
  for (const std::int64_t id : field->integers(0, most)) stops.insert(static_cast<Token>(id));
  return {stops.begin(), stops.end()};
}

}  // namespace draftproof
