// SPDX-License-Identifier: MIT
// suffix as ik_llama.cpp has it. With the committed text t, n(s): how often s occurs in it, and f(s): how often a token
// follows. For len = min_match, ..., depth, as long as the last len tokens s have f(s) > 0, a candidate is that of
// suffix.h with these differences: p = p * (n(sc) / n(s)), all in floats; the least probability is not min_prob but
// depends on acceptance; of several candidates with the largest score, it is the first, with the shortest match.
//
// Example: min_match = 1, factor = 1, offset = 0, first round, t = [1, 2, 3, 1, 2]. `1 2` occurs twice, and 3 follows
// it once: p is 1/2, where suffix.h has 1. The draft tokens are [3, 1], as there, with score 1 in place of 2.
//
// The least probability is 0.1 at first. After three proposals in a row of which less than half was accepted it rises
// by 0.1, to 0.5 at most, and the three are counted anew. After any other proposal it falls by 0.05, if it is above
// min_prob, and not below that. A proposal counts as it was before the loop cut it.
//
// The candidate of a corpus is taken when it has more tokens. A corpus is one text. Of several tokens that follow most
// often, it is the smallest. (In the original, the first in hash order.)
//
// The original keeps its tree from one request to the next; this is the first request. Time: O(length of the text and
// the corpus) per round. Memory: bytes_per_token per token of the text and of the corpus, and those two themselves.
#pragma once

#include "ref/drafts/legacy_draft.h"
#include "ref/drafts/suffix.h"

namespace draftproof {

class LegacySuffixDraft final : public LegacyDraft {
 public:
  static constexpr int bytes_per_token = 8;  // of the lists of places

  LegacySuffixDraft(int draft_max, const SuffixSettings& settings)
      : LegacyDraft(std::min(draft_max, settings.m)), settings_(settings) {}

 protected:
  std::vector<Token> draft(std::span<const Token> text) override;
  void accept(int accepted) override;
  void reset() override;

 private:
  std::vector<Token> speculate(std::span<const Token> learned, std::span<const Token> text) const;

  SuffixSettings settings_;
  float min_ = 0.1F;         // probability
  int low_ = 0;              // proposals of which less than half was accepted
  std::size_t drafted_ = 0;  // tokens of the last proposal
};

}  // namespace draftproof
