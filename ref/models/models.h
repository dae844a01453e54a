// SPDX-License-Identifier: MIT
// Every architecture of targets, found by the names that config.json gives it. A new one is a declaration here and a
// row in models.cpp; its file defines it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ref/models/architecture.h"

namespace draftproof {

extern const Architecture qwen3_architecture;
extern const Architecture qwen2_architecture;
extern const Architecture qwen3_moe_architecture;
extern const Architecture qwen35_architecture;
extern const Architecture llama_architecture;
extern const Architecture mistral_architecture;
extern const Architecture ministral3_architecture;
extern const Architecture gemma2_architecture;
extern const Architecture gemma3_architecture;
extern const Architecture gemma3n_architecture;
extern const Architecture gemma4_architecture;
extern const Architecture smollm3_architecture;
extern const Architecture olmo2_architecture;
extern const Architecture phi3_architecture;
extern const Architecture granite_architecture;
extern const Architecture mixtral_architecture;
extern const Architecture qwen2_moe_architecture;
extern const Architecture olmoe_architecture;
extern const Architecture glm4_architecture;
extern const Architecture cohere2_architecture;
extern const Architecture exaone4_architecture;
extern const Architecture seed_oss_architecture;
extern const Architecture mimo_architecture;
extern const Architecture ernie45_architecture;
extern const Architecture stablelm_architecture;
extern const Architecture arcee_architecture;
extern const Architecture starcoder2_architecture;
extern const Architecture gpt_oss_architecture;
extern const Architecture glm4_moe_architecture;
extern const Architecture deepseek_architecture;
extern const Architecture kimi_linear_architecture;
extern const Architecture minimax_m2_architecture;
extern const Architecture ernie45_moe_architecture;
extern const Architecture llama4_architecture;
extern const Architecture lfm2_architecture;
extern const Architecture mamba2_architecture;
extern const Architecture granite_hybrid_architecture;
extern const Architecture falcon_h1_architecture;
extern const Architecture nemotron_h_architecture;
extern const Architecture jamba_architecture;
extern const Architecture phi_architecture;
extern const Architecture apertus_architecture;
extern const Architecture nanochat_architecture;
extern const Architecture bitnet_architecture;

/// Returns the architectures above, in that order.
std::span<const Architecture* const> all_architectures() noexcept;

/// Returns the architecture of a target. Throws Error, naming those there are.
const Architecture& architecture_of(const Json& config);
/// Returns the name of the same: architectures[0], or what it is for the model_type.
std::string architecture_name(const Json& config);

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
