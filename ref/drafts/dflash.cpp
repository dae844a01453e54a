// SPDX-License-Identifier: MIT
#include "ref/drafts/dflash.h"

#include <algorithm>

namespace draftproof {

DFlashDraft::DFlashDraft(DFlashNetwork& network, int capacity)
    : network_(network),
      // A block may reach past the text's last position; its rows need room though none is kept.
      context_(network.new_context(capacity + network.config().block_size,
                                   std::max(run_max, network.config().block_size))) {}

void DFlashDraft::observe(std::span<const Token> run, std::span<const float> features) {
  network_.append(features, static_cast<int>(run.size()), *context_);
}

void DFlashDraft::propose(Token anchor, int limit, Guesses& guesses) {
  const std::span<const float> logits = network_.block(anchor, limit, *context_);
  const std::size_t vocabulary = logits.size() / static_cast<std::size_t>(limit);
  for (int i = 0; i < limit; ++i) guesses.draw(logits.subspan(static_cast<std::size_t>(i) * vocabulary, vocabulary));
}

}  // namespace draftproof
