// SPDX-License-Identifier: MIT
#include "ref/models/models.h"

#include <limits>
#include <set>

#include "ref/base/error.h"
#include "ref/models/llama.h"
#include "ref/models/memory.h"
#include "ref/models/qwen2.h"
#include "ref/models/qwen3.h"

namespace draftproof {

std::span<const Architecture> all_architectures() noexcept {
  static constexpr Architecture list[] = {
      {"qwen3", "Qwen3ForCausalLM", load_qwen3},
      {"qwen2", "Qwen2ForCausalLM", load_qwen2},
      {"llama", "LlamaForCausalLM", load_llama},
  };
  return list;
}

std::unique_ptr<Model> load_model(const Checkpoint& files, const LoadOptions& options) {
  const Json& config = files.config();
  if (!config.is_object()) config.fail("must be a JSON object");
  const std::string type = config.at("model_type").string();
  const auto architectures = config.find("architectures");
  const std::string architecture =
      architectures && architectures->is_array() && architectures->size() > 0 ? (*architectures)[0].string() : "";
  std::string known;
  for (const Architecture& row : all_architectures()) {
    if (type == row.model_type && (architecture.empty() || architecture == row.architecture)) {
      const std::string why = shortage(files.path().string(), model_need(files, options).total(0), memory_available());
      if (!why.empty()) throw Error(why);
      return row.load({files, options}, config);
    }
    known += (known.empty() ? "" : ", ") + std::string(row.architecture);
  }
  config.fail("architecture '" + (architecture.empty() ? type : architecture) +
              "' is not a target draftproof knows; it knows " + known);
}

namespace {

/// The field that holds the ids of the stop tokens, if there is one.
std::optional<Json> find_stop_field(const Checkpoint& files) {
  const std::filesystem::path generation = files.path() / "generation_config.json";
  if (files.metadata() == nullptr && std::filesystem::exists(generation)) {
    if (auto field = Json::read(generation).find("eos_token_id")) return field;
  }
  return files.config().find("eos_token_id");
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
