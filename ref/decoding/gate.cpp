// SPDX-License-Identifier: MIT
#include "ref/decoding/gate.h"

namespace draftproof {

Gate gate(const GateInputs& inputs) noexcept {
  if (!inputs.draft_given) return Gate::no_draft;
  if (inputs.draft_needs_target) {
    if (!inputs.target_has_taps) return Gate::target_without_taps;
    if (!inputs.target_has_embeddings) return Gate::target_embeddings_missing;
  }
  return inputs.logprobs ? Gate::logprobs_requested : Gate::open;
}

const char* name_of(Gate gate) noexcept {
  switch (gate) {
    case Gate::open: return "open";
    case Gate::no_draft: return "no_draft";
    case Gate::target_without_taps: return "target_without_taps";
    case Gate::target_embeddings_missing: return "target_embeddings_missing";
    case Gate::logprobs_requested: return "logprobs_requested";
  }
  return "open";
}

}  // namespace draftproof
