// SPDX-License-Identifier: MIT
// Gemma 3, the text model: full attention in every sixth layer and a sliding window in the others, each kind with a
// RoPE of its own; q and k are normalized head by head.
#pragma once

#include <memory>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// Of a text model, or of a multimodal one, whose published configs leave out what is a default of transformers.
TransformerConfig describe_gemma3(const Json& json);
std::unique_ptr<Model> load_gemma3(const WeightLoader& from, const TransformerConfig& config);

}  // namespace draftproof
