// SPDX-License-Identifier: MIT
// Qwen3-MoE (Hugging Face `qwen3_moe`): Qwen3 whose MLPs are experts, in all layers but those that mlp_only_layers and
// decoder_sparse_step leave out. Without use_sliding_window no layer slides, with it all do. Source: transformers,
// models/qwen3_moe.
#pragma once

#include <memory>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

TransformerConfig describe_qwen3_moe(const Json& config);
std::unique_ptr<Model> load_qwen3_moe(const WeightLoader& from, const TransformerConfig& config);

}  // namespace draftproof
