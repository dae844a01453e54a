// SPDX-License-Identifier: MIT
// ngram-simple as ik_llama.cpp has it. With L tokens before the anchor and n, m: nothing when L <= n + m + 1. The
// largest j in [1, L - n) such that the n tokens at j are the last n of the text; up to m tokens from j + n on, but not
// the anchor. Nothing when these are fewer than n: so a period of less than n tokens at the end is never gone on with.
//
// Example: n = 2, m = 3. After [9, 1, 2, 3, 4, 5, 1, 2] the draft tokens are [3, 4, 5]. After [1, 2, 3, 4, 5, 6, 1, 2]
// there are none: `1 2` occurred at 0 only, and j >= 1.
//
// Time: O(L n) per round. Memory: the text.
#pragma once

#include "ref/drafts/legacy_draft.h"
#include "ref/drafts/ngram_map_k.h"

namespace draftproof {

class LegacyNgramSimpleDraft final : public LegacyDraft {
 public:
  LegacyNgramSimpleDraft(int draft_max, const NgramMapKSettings& settings)
      : LegacyDraft(std::min(draft_max, settings.m)),
        n_(static_cast<std::size_t>(settings.n)),
        m_(static_cast<std::size_t>(settings.m)) {}

 protected:
  std::vector<Token> draft(std::span<const Token> text) override {
    const std::size_t length = text.size() - 1;
    if (length <= n_ + m_ + 1) return {};
    const auto key = text.last(n_);
    for (std::size_t j = length - n_ - 1; j > 0; --j) {
      if (!std::ranges::equal(text.subspan(j, n_), key)) continue;
      const std::size_t count = std::min(m_, length - (j + n_));
      if (count < n_) return {};
      const auto tokens = text.subspan(j + n_, count);
      return {tokens.begin(), tokens.end()};
    }
    return {};
  }

 private:
  std::size_t n_;
  std::size_t m_;
};

}  // namespace draftproof
