// SPDX-License-Identifier: MIT
// Chunked prefill of a known text.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "ref/caches/context_shift.h"
#include "ref/models/model.h"

namespace draftproof {

/// Receives the logits after tokens[index]; they are valid during the call.
using RowVisitor = std::function<void(int index, std::span<const float> logits)>;

/// Returns why caches of the model cannot shift their context so, a sentence; empty when they can.
std::string context_shift_error(const ContextShift& shift, const Model& model);

/// Appends `tokens` to the text that `cache` holds, at most `chunk` tokens per forward pass, and commits every pass.
/// Shifts the context where `shift` says so. Calls `visit` for each token from index `from` on, in order; no logits are
/// computed for the tokens before it.
void read_text(Model& model, Cache& cache, std::span<const Token> tokens, int chunk,
               const std::optional<ContextShift>& shift, int from, const RowVisitor& visit);

/// The same without logits.
void read_text(Model& model, Cache& cache, std::span<const Token> tokens, int chunk,
               const std::optional<ContextShift>& shift = {});

}  // namespace draftproof
