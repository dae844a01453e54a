// SPDX-License-Identifier: MIT
#include "ref/drafts/control_drafts.h"

#include <algorithm>

namespace draftproof {

Token least_likely(std::span<const float> logits) {
  return static_cast<Token>(logits.rend() - std::min_element(logits.rbegin(), logits.rend()) - 1);
}

Token AlwaysRejectDraft::next_draft_token(std::span<const float> logits, ProposalBuilder& builder) {
  const Token token = least_likely(logits);
  builder.add_token(token);
  return token;
}

}  // namespace draftproof
