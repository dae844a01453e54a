// SPDX-License-Identifier: MIT
// Every architecture, by the name config.json gives it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/mtp_block.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

struct Architecture {
  const char* model_type;    // config.json `model_type`
  const char* architecture;  // config.json `architectures[0]`
  TransformerConfig (*describe)(const Json& config);
  std::unique_ptr<Model> (*load)(const WeightLoader& from, const TransformerConfig& config);
  const MtpBlocks* mtp = nullptr;  // of those whose MTP heads are implemented
};

std::span<const Architecture> all_architectures() noexcept;

/// Returns the architecture of a target. Throws Error, naming those there are.
const Architecture& architecture_of(const Json& config);

/// Describes a target or a draft network. The vocabulary of a draft that leaves it to its target is 1.
TransformerConfig describe(const Json& config);
/// The same, as it is loaded with these options. Throws Error when it cannot be.
TransformerConfig describe(const Checkpoint& files, const LoadOptions& options);

/// Loads a model. Throws Error, naming file and field, or when memory does not suffice for it.
std::unique_ptr<Model> load_model(const Checkpoint& files, const LoadOptions& options);

/// Returns the ids of the stop tokens, ascending. A folder has them as eos_token_id of generation_config.json or, where
/// that has none, of config.json. A .gguf file names the end of a text, a turn or a message in its metadata; the tokens
/// that llama.cpp knows as such by their spelling count too.
std::vector<Token> read_stop_tokens(const Checkpoint& files);

}  // namespace draftproof
