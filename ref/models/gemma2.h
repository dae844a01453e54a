// SPDX-License-Identifier: MIT
// Gemma 2: full attention in every second layer and a sliding window in the others, capped scores and logits.
#pragma once

#include <memory>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

TransformerConfig describe_gemma2(const Json& json);
std::unique_ptr<Model> load_gemma2(const WeightLoader& from, const TransformerConfig& config);

}  // namespace draftproof
