// SPDX-License-Identifier: MIT
#include "ref/drafts/dflash.h"

#include <algorithm>

#include "ref/base/require.h"

namespace draftproof {

namespace {
constexpr int chunk = 64;  // context rows appended per pass
}

DFlashDraft::DFlashDraft(DFlashNetwork& network, int capacity)
    : network_(network),
      // A block may reach past the text's last position; its rows need room though none is kept.
      context_(network.new_context(capacity + network.config().block_size,
                                   std::max(chunk, network.config().block_size))) {}

void DFlashDraft::observe(std::span<const Token> run, std::span<const float> features) {
  REQUIRE(!run.empty(), "a run holds at least one token");
  const std::size_t width = features.size() / run.size();
  for (std::size_t row = 0; row < run.size(); row += chunk) {
    const std::size_t rows = std::min<std::size_t>(chunk, run.size() - row);
    network_.append(features.subspan(row * width, rows * width), static_cast<int>(rows), *context_);
  }
}

void DFlashDraft::propose(Token anchor, int limit, Guesses& guesses) {
  const std::span<const float> logits = network_.block(anchor, limit, *context_);
  const std::size_t vocabulary = logits.size() / static_cast<std::size_t>(limit);
  for (int i = 0; i < limit; ++i) guesses.draw(logits.subspan(static_cast<std::size_t>(i) * vocabulary, vocabulary));
}

}  // namespace draftproof
