// SPDX-License-Identifier: MIT
// Qwen3.5, dense, the text model (Hugging Face `qwen3_5` with its text_config, and `qwen3_5_text`): layers of gated
// delta net (gated_delta_net.h) and, at every full_attention_interval or as layer_types says, of gated full attention;
// SwiGLU. The norms of the stream and of q and k multiply by 1 + weight, that of the delta net by its weight. RoPE
// turns the first head_dim * partial_rotary_factor dimensions of a head; for a text M-RoPE's three positions are one.
// The heads of the attention are multiplied by a gate before they are mixed: a / (1 + exp(-gate)). Tensors of vision
// and MTP stay in the file. Source: transformers, models/qwen3_5.
#pragma once

#include <memory>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

TransformerConfig describe_qwen35(const Json& config);
std::unique_ptr<Model> load_qwen35(const WeightLoader& from, const TransformerConfig& config);

}  // namespace draftproof
