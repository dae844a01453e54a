// SPDX-License-Identifier: MIT
#include "ref/drafts/dflash.h"

#include <algorithm>

namespace draftproof {

DFlashDraft::DFlashDraft(DFlashNetwork& network, int capacity)
    : network_(network),
      // A DFlash block may reach past the text's last position. Its rows need room although none of them is kept.
      context_(network.new_context(capacity + network.config().block_size,
                                   std::max(max_chunk, network.config().block_size))) {}

void DFlashDraft::observe(std::span<const Token> committed, std::span<const float> features) {
  network_.append(features, static_cast<int>(committed.size()), *context_);
}

void DFlashDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  const std::span<const float> logits = network_.block(anchor, limit, *context_);
  const std::size_t vocabulary = logits.size() / static_cast<std::size_t>(limit);
  for (int i = 0; i < limit; ++i) builder.draw(logits.subspan(static_cast<std::size_t>(i) * vocabulary, vocabulary));
}

}  // namespace draftproof
