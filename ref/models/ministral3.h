// SPDX-License-Identifier: MIT
// Ministral 3 (Hugging Face `ministral3`, alone or as the text part of `mistral3`): Mistral with yarn, whose queries
// grow with their position: after RoPE, q = q * (1 + beta * ln(1 + floor(p / original context))), the factor computed
// in double and rounded once. Without llama_4_scaling_beta they do not (Mistral Small 3.1 has `mistral` in `mistral3`).
// Source: transformers, models/ministral3.
#pragma once

#include <memory>

#include "ref/formats/json.h"
#include "ref/models/model.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

TransformerConfig describe_ministral3(const Json& config);
std::unique_ptr<Model> load_ministral3(const WeightLoader& from, const TransformerConfig& config);

}  // namespace draftproof
