// SPDX-License-Identifier: MIT
// DFlash as a draft: the target's features of committed positions become context, and one forward pass proposes a
// DFlash block. The network is shared; this object holds the context of one sequence.
#pragma once

#include <memory>

#include "ref/drafts/draft.h"
#include "ref/models/dflash.h"

namespace draftproof {

class DFlashDraft final : public Draft {
 public:
  /// `network` outlives the draft.
  DFlashDraft(DFlashNetwork& network, int capacity);

  int draft_max() const override { return network_.config().block_size - 1; }
  std::span<const int> taps() const override { return network_.config().taps; }
  void observe(std::span<const Token> committed, std::span<const float> features) override;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;
  Fingerprint digest() const override { return context_->digest(); }

 private:
  DFlashNetwork& network_;
  std::unique_ptr<Cache> context_;
};

}  // namespace draftproof
