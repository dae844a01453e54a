// SPDX-License-Identifier: MIT
// Qwen2 and Qwen2.5, dense (Hugging Face `qwen2`): GQA with biases on q, k and v and on nothing else, RoPE, SwiGLU,
// tied or untied head, full layers or, late in the stack, sliding ones. Source: transformers, models/qwen2.
#pragma once

#include <memory>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

TransformerConfig describe_qwen2(const Json& config);
std::unique_ptr<Model> load_qwen2(const WeightLoader& from, const TransformerConfig& config);

}  // namespace draftproof
