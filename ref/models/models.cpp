// SPDX-License-Identifier: MIT
#include "ref/models/models.h"

#include <limits>
#include <set>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/memory.h"

namespace draftproof {

std::span<const Architecture* const> all_architectures() noexcept {
  // clang-format off
  static constexpr const Architecture* list[] = {
      &qwen3_architecture,
      &qwen2_architecture,
      &qwen3_moe_architecture,
      &qwen35_architecture,
      &llama_architecture,
      &mistral_architecture,
      &ministral3_architecture,
      &gemma2_architecture,
      &gemma3_architecture,
      &gemma3n_architecture,
      &gemma4_architecture,
      &smollm3_architecture,
      &olmo2_architecture,
      &phi3_architecture,
      &granite_architecture,
      &mixtral_architecture,
      &qwen2_moe_architecture,
      &olmoe_architecture,
      &glm4_architecture,
      &cohere2_architecture,
      &exaone4_architecture,
      &seed_oss_architecture,
      &mimo_architecture,
      &ernie45_architecture,
      &stablelm_architecture,
      &arcee_architecture,
      &starcoder2_architecture,
      &gpt_oss_architecture,
      &glm4_moe_architecture,
      &deepseek_architecture,
      &kimi_linear_architecture,
      &minimax_m2_architecture,
      &ernie45_moe_architecture,
      &llama4_architecture,
      &lfm2_architecture,
      &mamba2_architecture,
      &granite_hybrid_architecture,
      &falcon_h1_architecture,
      &nemotron_h_architecture,
      &jamba_architecture,
      &phi_architecture,
      &apertus_architecture,
      &nanochat_architecture,
      &bitnet_architecture,
  };
  // clang-format on
  return list;
}

namespace {

std::string known_drafts() {
  const auto drafts = all_checkpoint_kinds().first(all_checkpoint_kinds().size() - 1);  // without targets
  std::string known;
  for (const CheckpointKind* const kind : drafts) {
    const char* const before = known.empty() ? "" : kind == drafts.back() ? " and " : ", ";
    known += before + std::string(kind->architectures);
  }
  return known;
}

struct NamedArchitecture {
  const Architecture* architecture;
  const char* name;
};

NamedArchitecture find_architecture(const Json& config) {
  if (!config.is_object()) config.fail("must be a JSON object");
  if (checkpoint_kind(config) == gemma4_assistant_checkpoint) {
    config.fail("is an assistant of Gemma 4; name it as the draft of one, mtp:PATH");
  }
  const std::string type = config.at("model_type").string();
  const auto architectures = config.find("architectures");
  const std::string wanted =
      architectures && architectures->is_array() && architectures->size() > 0 ? (*architectures)[0].string() : "";
  std::string known;
  for (const Architecture* const one : all_architectures()) {
    for (const auto& [model_type, name] : one->names) {
      if (type == model_type && (wanted.empty() || wanted == name)) return {one, name};
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
  }
  config.fail("architecture '" + (wanted.empty() ? type : wanted) +
              "' is not a target draftproof knows; it knows the targets " + known + ", and as drafts " +
              known_drafts());
}

}  // namespace

const Architecture& architecture_of(const Json& config) { return *find_architecture(config).architecture; }

std::string architecture_name(const Json& config) { return find_architecture(config).name; }

TransformerConfig describe(const Json& config) {
  TransformerConfig result = checkpoint_kind(config).describe(config);
  limit_context(result);
  return result;
}

TransformerConfig describe(const Checkpoint& files, const LoadOptions& options) {
  TransformerConfig config = describe(files.config());
  if (options.long_context && config.long_context > 0) {
    config.context = config.long_context;
    for (Rope& rope : config.ropes) {
      if (rope.context > 0) rope.frequencies = rope.long_frequencies;
    }
  }
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
  if (!files.has_weights()) files.config().fail("is here without its weights");
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
  constexpr std::int64_t max = std::numeric_limits<Token>::max();
  if (!field->is_array()) return {static_cast<Token>(field->integer(0, max))};
  std::set<Token> stops;
  for (const std::int64_t id : field->integers(0, max)) stops.insert(static_cast<Token>(id));
  return {stops.begin(), stops.end()};
}

}  // namespace draftproof
