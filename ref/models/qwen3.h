// SPDX-License-Identifier: MIT
// Qwen3, dense (Hugging Face `qwen3`): GQA with per-head q and k norms, RoPE, SwiGLU, tied or untied head, full or
// sliding layers. Source: transformers, models/qwen3.
#pragma once

#include <memory>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

TransformerConfig describe_qwen3(const Json& config);
std::unique_ptr<Model> load_qwen3(const WeightLoader& from, const TransformerConfig& config);

}  // namespace draftproof
