// SPDX-License-Identifier: MIT
// What the config of a draft says about drafting in parallel: the rows behind the anchor's read a mask token where
// draft tokens would be, so one pass says several of them, and none depends on another. Models (PARD: An, Bai, Liu, Li,
// Barsoum 2025) and EAGLE-3 heads (P-EAGLE: Hui et al. 2026) are trained for it.
//
// The mask token is called mask_token_id by speculators, pard_token by PARD, ptd_token_id in the first P-EAGLE heads;
// vLLM reads all three (v1/spec_decode/llm_base_proposer.py).
#pragma once

#include <optional>

#include "ref/base/token.h"
#include "ref/formats/json.h"

namespace draftproof {

/// Reads the mask token, below `vocabulary`. Throws Error when two names say different ones.
std::optional<Token> find_mask_token(const Json& config, int vocabulary);

/// Reads how many draft tokens a round has by speculators_config; 0 when it does not say so.
int read_speculative_tokens(const Json& config);

}  // namespace draftproof
