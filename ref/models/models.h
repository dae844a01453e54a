// SPDX-License-Identifier: MIT
// Every architecture, by the name config.json gives it.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/transformer.h"

namespace draftproof {

struct Architecture {
  const char* model_type;    // config.json `model_type`
  const char* architecture;  // config.json `architectures[0]`
  std::unique_ptr<Model> (*load)(const WeightLoader& from, const Json& config);
};

/// All of them; ends with a row of nulls.
const Architecture* all_architectures() noexcept;

/// Loads a Hugging Face style folder or a .gguf file. Errors name file and field.
std::unique_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options);

/// The ids that end a text, ascending: eos_token_id of generation_config.json alone where it has one, else that of
/// config.json; of a .gguf file what its metadata name as the end of a text, a turn or a message, and what llama.cpp
/// knows as such by its spelling.
std::vector<Token> read_stop_tokens(const std::filesystem::path& path);

}  // namespace draftproof
