// SPDX-License-Identifier: MIT
// Llama 2 and 3 (Hugging Face `llama`): GQA without norms or biases, RoPE, from 3.1 on stretched ("llama3"), SwiGLU,
// tied or untied head, full layers. Source: transformers, models/llama.
#pragma once

#include <memory>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

TransformerConfig describe_llama(const Json& config);
std::unique_ptr<Model> load_llama(const WeightLoader& from, const TransformerConfig& config);

}  // namespace draftproof
