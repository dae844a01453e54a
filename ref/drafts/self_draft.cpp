// SPDX-License-Identifier: MIT
#include "ref/drafts/self_draft.h"

#include "ref/base/require.h"
#include "ref/drafts/continuation.h"
#include "ref/drafts/drafts.h"

namespace draftproof {

void SelfDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  ProposeJob job{this, anchor, limit, &builder};
  SelfDrafter::propose_together(model_, outputs_, std::span(&job, 1));
  if (job.error) std::rethrow_exception(job.error);
}

std::unique_ptr<Draft> SelfDrafter::open(int capacity, int draft_max) {
  return std::make_unique<SelfDraft>(*model_, draft_tokens_per_round(draft_max, capacity), min_probability_);
}

void SelfDrafter::propose_together(Model& model, Outputs& outputs, std::span<ProposeJob> jobs) {
  std::vector<Continuation> texts;
  for (ProposeJob& job : jobs) {
    auto& draft = static_cast<SelfDraft&>(*job.draft);
    REQUIRE(job.limit >= 1 && job.limit <= draft.draft_max_, "a draft is asked for at most draft_max() draft tokens");
    REQUIRE(draft.target_ != nullptr, "the draft has got the target's cache");
    draft.anchor_ = draft.target_->length();
    texts.push_back({job, *draft.target_, draft.target_->begin(job.limit), {job.anchor}});
  }
  continue_texts(model, texts, outputs, [&](std::size_t i, std::span<const float> logits) -> std::optional<Token> {
    const auto& draft = static_cast<const SelfDraft&>(*jobs[i].draft);
    if (draft.min_probability_.stops_before(logits)) return std::nullopt;
    return jobs[i].builder->draw(logits);
  });
}

}  // namespace draftproof
