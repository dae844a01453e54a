// SPDX-License-Identifier: MIT
// Chunked prefill of a known text.
#pragma once

#include <functional>
#include <span>

#include "ref/models/model.h"

namespace draftproof {

/// Receives the logits after tokens[index]; they are valid during the call.
using RowVisitor = std::function<void(int index, std::span<const float> logits)>;

/// Appends `tokens` to the text that `cache` holds, at most `chunk` tokens per forward pass, and commits every pass.
/// Calls `visit` for each token from index `from` on, in order; no logits are computed for the tokens before it.
void read_text(Model& model, Cache& cache, std::span<const Token> tokens, int chunk, int from, const RowVisitor& visit);

/// The same without logits.
void read_text(Model& model, Cache& cache, std::span<const Token> tokens, int chunk);

}  // namespace draftproof
