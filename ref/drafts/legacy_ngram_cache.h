// SPDX-License-Identifier: MIT
// ngram-cache as ik_llama.cpp has it, by the rules of ngram_cache.h, except:
//
// - Each round counts what is new, with the anchor, as a text of its own. So no n-gram with an older token in it is
//   counted, and nothing at all when only one token is new.
// - The weight of a token is always of the last two tokens of x, also for n = 1.
// - Nothing is proposed for a text of fewer than 4 tokens. (The original reads out of range.)
// - Of several tokens with the largest score, it is the smallest. (In the original, the first in hash order.)
//
// Example: m = 3, first round, t = [1, 2, 3, 1, 2, 3, 1, 2]: the draft tokens are [3, 1, 2], as by ngram_cache.h. A
// later round that begins with one new token, for example 4, counts nothing: not that 4 followed `1 2`.
//
// There is no dynamic lookup file. Products of counts never overflow. Time: per token of x, O(distinct tokens that
// followed its n-grams). Memory: the text, and bytes_per_token per token.
#pragma once

#include <map>
#include <optional>

#include "ref/drafts/legacy_draft.h"
#include "ref/drafts/ngram_cache.h"

namespace draftproof {

class LegacyNgramCacheDraft final : public LegacyDraft {
 public:
  /// Beside the text, for each token: a node of both maps for each length.
  static constexpr int bytes_per_token = Ngram::n_max * (112 + 48);

  LegacyNgramCacheDraft(int draft_max, const NgramCacheSettings& settings)
      : LegacyDraft(std::min(draft_max, settings.m)), settings_(settings) {}

 protected:
  std::vector<Token> draft(std::span<const Token> text) override;
  void reset() override;

 private:
  std::optional<Token> next(std::span<const Token> x) const;

  NgramCacheSettings settings_;
  std::map<Ngram, std::map<Token, int>> counts_;
  std::size_t counted_ = 0;  // tokens
};

}  // namespace draftproof
