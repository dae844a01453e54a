// SPDX-License-Identifier: MIT
// Decides whether a request can be decoded speculatively. A closed gate is not an error: the request is then served by
// plain decoding, and the reason is reported to the user.
#pragma once

namespace draftproof {

enum class Gate {
  open,
  no_draft,                   // no draft was requested
  target_without_taps,        // the target does not expose the hidden states of its layers (taps)
  target_embeddings_missing,  // the target provides no embedding table and LM head
  logprobs_requested,         // log-probabilities are served by plain decoding, where the seed's gate is asked for
};

struct GateInputs {
  bool draft_given = false;
  bool draft_needs_target = false;  // a kind that reads the target's features and borrows its embeddings
  bool target_has_taps = false;
  bool target_has_embeddings = false;
  bool logprobs = false;  // requested, and the seed's gate is asked for
};

/// Returns the first reason that applies, in the order of the enumeration; `open` when none does.
Gate gate(const GateInputs& inputs) noexcept;
const char* name_of(Gate gate) noexcept;

}  // namespace draftproof
