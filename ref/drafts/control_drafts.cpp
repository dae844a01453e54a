// SPDX-License-Identifier: MIT
#include "ref/drafts/control_drafts.h"

#include <algorithm>

#include "ref/drafts/drafts.h"
#include "ref/drafts/network_draft.h"

namespace draftproof {

Token least_likely(std::span<const float> logits) {
  return static_cast<Token>(logits.rend() - std::min_element(logits.rbegin(), logits.rend()) - 1);
}

Token AlwaysRejectDraft::next_draft_token(std::span<const float> logits, ProposalBuilder& builder) {
  const Token token = least_likely(logits);
  builder.add_token(token);
  return token;
}

MemoryNeed need_of_target(const DraftStage&, const Checkpoint*, const MemoryNeed& target, const LoadOptions&) {
  MemoryNeed need;
  need.cache_fixed = target.cache_fixed;
  need.cache_per_position = target.cache_per_position;
  return need;
}

namespace {

template <class Control>
class ControlDrafter final : public ModelDrafter {
 public:
  using ModelDrafter::ModelDrafter;
  std::unique_ptr<Draft> open(int capacity, int draft_max) override {
    return std::make_unique<Control>(model_, capacity, draft_tokens_per_round(draft_max, capacity));
  }
};

template <class Control>
std::unique_ptr<Drafter> load(const DraftStage&, const Checkpoint*, const DraftTarget& target, const LoadOptions&) {
  return std::make_unique<ControlDrafter<Control>>(target.model);
}

}  // namespace

const DraftKind always_reject_kind = {.name = "always-reject",
                                      .summary = "always wrong (for proofs)",
                                      .keeps = Keeps::cache,
                                      .need = need_of_target,
                                      .load = load<AlwaysRejectDraft>};

const DraftKind perfect_kind = {.name = "perfect",
                                .summary = "always right (for proofs)",
                                .keeps = Keeps::cache,
                                .need = need_of_target,
                                .load = load<PerfectDraft>};

}  // namespace draftproof
