// SPDX-License-Identifier: MIT
// May this request be decoded speculatively? A value a user sees, never a failure: when the gate is closed, decoding
// goes on plainly and the reason is reported.
#pragma once

namespace draftproof {

enum class Gate {
  open,
  no_draft,                   // no draft was asked for
  draft_not_dflash,           // a DFlash draft was asked for, the checkpoint is something else
  target_not_dflash,          // the target's layers cannot be tapped
  target_embeddings_missing,  // the target lends no embedding table and head
  logprobs_requested,         // log-probabilities are served by plain decoding
};

struct GateQuestion {
  bool draft_given = false;
  bool draft_needs_target = false;  // a kind that reads features and borrows embeddings (DFlash)
  bool draft_is_dflash = false;
  bool target_has_taps = false;
  bool target_has_embeddings = false;
  bool logprobs = false;
};

/// The first reason that applies, in the order of the enumeration.
Gate gate(const GateQuestion& question) noexcept;
const char* name_of(Gate gate) noexcept;

}  // namespace draftproof
