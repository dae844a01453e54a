// SPDX-License-Identifier: MIT
#include "ref/drafts/legacy_draft.h"

#include "ref/base/require.h"

namespace draftproof {

bool is_legacy(const DraftStage& stage) { return stage.integer("legacy") == 1; }

void LegacyDraft::continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) {
  const auto length = static_cast<int>(text.size());
  if (rounds_.empty() || rounds_.back().length < length) rounds_.push_back({length, limit});
  REQUIRE(rounds_.back().length == length, "a draft is asked to continue a text that grows");
  try {
    for (; done_ < rounds_.size(); ++done_) {
      const auto so_far = text.first(static_cast<std::size_t>(rounds_[done_].length));
      if (done_ == 0) {
        begin(so_far.first(so_far.size() - 1));
      } else if (!proposal_.empty()) {
        const auto since = so_far.subspan(static_cast<std::size_t>(rounds_[done_ - 1].length));
        const auto accepted = since.first(since.size() - 1);  // its last token, the anchor, was drawn by the target
        const auto [end, _] = std::ranges::mismatch(proposal_, accepted);
        accept(static_cast<int>(end - proposal_.begin()));
      }
      proposal_ = draft(so_far);
      proposal_.resize(std::min(proposal_.size(), static_cast<std::size_t>(rounds_[done_].limit)));
    }
  } catch (...) {
    clear();
    throw;
  }
  const auto count = std::min(proposal_.size(), static_cast<std::size_t>(limit));
  draft_tokens.assign(proposal_.begin(), proposal_.begin() + static_cast<std::ptrdiff_t>(count));
}

void LegacyDraft::clear() {
  done_ = 0;
  proposal_ = {};
  reset();
}

}  // namespace draftproof
