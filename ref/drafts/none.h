// SPDX-License-Identifier: MIT
// The empty draft. Decoding with it is plain autoregressive decoding.
#pragma once

#include "ref/drafts/draft.h"

namespace draftproof {

class NoDraft final : public Draft {
 public:
  int draft_max() const override { return 0; }
  void observe(std::span<const Token>, std::span<const float>) override {}
  void propose(Token, int, ProposalBuilder&) override {}
  void forget() override {}
};

}  // namespace draftproof
