// SPDX-License-Identifier: MIT
// Every architecture, by the name config.json gives it.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "ref/formats/json.h"
#include "ref/models/model.h"

namespace draftproof {

struct Architecture {
  const char* model_type;    // config.json `model_type`
  const char* architecture;  // config.json `architectures[0]`
  std::unique_ptr<Model> (*load)(const std::filesystem::path& folder, const Json& config, const Kernels& kernels);
};

/// All of them; ends with a row of nulls.
const Architecture* all_architectures() noexcept;

/// Loads a Hugging Face style folder. Errors name file and field.
std::unique_ptr<Model> load_model(const std::filesystem::path& folder, const Kernels& kernels);

/// The ids that end a text: the union of eos_token_id in config.json and generation_config.json, ascending.
std::vector<Token> read_stop_tokens(const std::filesystem::path& folder);

}  // namespace draftproof
