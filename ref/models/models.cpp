// SPDX-License-Identifier: MIT
#include "ref/models/models.h"

#include <limits>
#include <set>

#include "ref/formats/checkpoint.h"
#include "ref/models/qwen3.h"

namespace draftproof {

const Architecture* all_architectures() noexcept {
  static constexpr Architecture list[] = {
      {"qwen3", "Qwen3ForCausalLM", load_qwen3},
      {nullptr, nullptr, nullptr},
  };
  return list;
}

std::unique_ptr<Model> load_model(const std::filesystem::path& folder, const Kernels& kernels) {
  const Json config = Checkpoint(folder).config();
  if (!config.is_object()) config.fail("must be a JSON object");
  const std::string type = config.at("model_type").string();
  const auto architectures = config.find("architectures");
  const std::string architecture =
      architectures && architectures->is_array() && architectures->size() > 0 ? (*architectures)[0].string() : "";
  for (const Architecture* row = all_architectures(); row->load != nullptr; ++row) {
    if (type == row->model_type && (architecture.empty() || architecture == row->architecture)) {
      return row->load(folder, config, kernels);
    }
  }
  config.fail("architecture '" + (architecture.empty() ? type : architecture) +
              "' is not a target draftproof knows; it knows Qwen3ForCausalLM");
}

std::vector<Token> read_stop_tokens(const std::filesystem::path& folder) {
  std::set<Token> stops;
  for (const char* name : {"config.json", "generation_config.json"}) {
    if (!std::filesystem::exists(folder / name)) continue;
    const auto field = Json::read(folder / name).find("eos_token_id");
    if (!field) continue;
    constexpr std::int64_t most = std::numeric_limits<Token>::max();
    if (field->is_array()) {
      for (const std::int64_t id : field->integers(0, most)) stops.insert(static_cast<Token>(id));
    } else {
      stops.insert(static_cast<Token>(field->integer(0, most)));
    }
  }
  return {stops.begin(), stops.end()};
}

}  // namespace draftproof
