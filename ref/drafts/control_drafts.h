// SPDX-License-Identifier: MIT
// Two control drafts for proofs: model drafts over the target itself. `perfect` continues as the target does: under
// greedy decoding and under `matching` every draft token is accepted, and under `rejection` q equals p. `always-reject`
// proposes the token that the target finds least likely before penalties: under greedy decoding without penalties,
// every round has a rejection.
#pragma once

#include "ref/drafts/draft_kind.h"
#include "ref/drafts/model_draft.h"

namespace draftproof {

/// Returns the token of the smallest logit, the last one among equals. Greedy decoding takes the first of the best, so
/// it rejects this token even when all logits are equal.
Token least_likely(std::span<const float> logits);

class PerfectDraft final : public ModelDraft {
 public:
  using ModelDraft::ModelDraft;
};

class AlwaysRejectDraft final : public ModelDraft {
 public:
  using ModelDraft::ModelDraft;

 protected:
  Token next_draft_token(std::span<const float> logits, ProposalBuilder& builder) override;
};

/// The need of such a draft: the target again, with a cache of its own.
MemoryNeed need_of_target(const DraftStage& stage, const Checkpoint* files, const MemoryNeed& target,
                          const LoadOptions& load_options);

}  // namespace draftproof
