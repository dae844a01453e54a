// SPDX-License-Identifier: MIT
// Mistral 7B and Nemo (Hugging Face `mistral`): Llama without biases, with a sliding window in every layer or in none.
// A sliding_window of null means none; one that is absent means 4096. GGUF files of these models are `llama`, without a
// window. Source: transformers, models/mistral.
#pragma once

#include "ref/formats/json.h"
#include "ref/models/transformer_config.h"

namespace draftproof {

/// Such a model is computed by load_llama.
TransformerConfig describe_mistral(const Json& config);

}  // namespace draftproof
