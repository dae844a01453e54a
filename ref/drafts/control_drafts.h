// SPDX-License-Identifier: MIT
// Two drafts for proofs, both plain model drafts over the target itself. `oracular` continues as the target does, so
// under greedy and under `matching` every draft token stands, and under `rejection` q equals p. `hostile` names the token the
// target likes least before penalties: under greedy without penalties every round meets a refusal.
#pragma once

#include "ref/drafts/model_draft.h"

namespace draftproof {

/// The last of the least: under greedy, where the first of the best wins, even a flat row refuses it.
Token least_likely(std::span<const float> logits);

class PerfectDraft final : public ModelDraft {
 public:
  using ModelDraft::ModelDraft;
};

class AlwaysRejectDraft final : public ModelDraft {
 public:
  using ModelDraft::ModelDraft;

 protected:
  Token draft_token(std::span<const float> logits, ProposalBuilder& builder) override;
};

}  // namespace draftproof
