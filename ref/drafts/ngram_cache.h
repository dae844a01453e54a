// SPDX-License-Identifier: MIT
// ngram-cache: what followed the last 4, 3, 2 or 1 tokens most often, if it did so often enough (lookup decoding of
// llama.cpp). A lookup file of other texts decides between tokens that followed, and is asked where the text has none.
//
// With the committed text t, whose last token is the anchor, and x = t followed by the draft tokens so far. N(g, c):
// how often c follows the n-gram g in t; S(a, b, c): how often it follows the tokens a b in the lookup file, 0 without
// one. The next draft token is found by the first of these rules that gives one; when none does, or there are m, the
// proposal ends.
//
//   n = 4, 3, 2, 1, as long as x has n tokens: g = the last n tokens of x; c = the token with the largest score, the
//   smallest of several, when N(g, all) >= {1, 1, 2, 2} and 100 N(g, c) >= {50, 50, 50, 66} N(g, all), for n = {4, 3,
//   2, 1}. Its score is N(g, c) times 100 S(a, b, c), where a b are the last two tokens of g; N(g, c) alone when n = 1
//   or S(a, b, c) = 0.
//
//   a b = the last two tokens of x: c = the token with the largest S(a, b, c), the smallest of several, when
//   S(a, b, all) >= 2 and 100 S(a, b, c) >= 50 S(a, b, all).
//
// Example: m = 3, no lookup file, t = [1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 2]. `2 3 1 2` was followed by 4, once, which is
// enough for n = 4. So the first draft token is 4, although 3 followed `1 2` more often. `3 1 2 4` was followed by 1,
// `1 2 4 1` by 2: the draft tokens are [4, 1, 2].
//
// Of the lookup file only n-grams of two tokens are used, which is what llama-lookup-create writes.
//
// Time: expected O(1) per token. Memory: bytes_per_token per token of the text, and 5 times the lookup file, once.
#pragma once

#include <memory>
#include <optional>

#include "ref/drafts/ngram_counts.h"
#include "ref/drafts/text_draft.h"

namespace draftproof {

struct NgramCacheSettings {
  int m = 0;  // draft tokens, at most
  std::shared_ptr<const NgramCounts> lookup = nullptr;
};

inline constexpr int lookup_n = 2;  // tokens of the n-grams of the lookup file that are used

/// Returns the best continuation of an n-gram of n tokens, if its count and its share of all counts are large enough.
std::optional<Token> sure_continuation(const NgramCounts::Continuations& known, int n);

/// The weight of a token after a text.
std::uint64_t lookup_weight(const NgramCounts* lookup, std::span<const Token> text, Token token);

class NgramCacheDraft final : public TextDraft {
 public:
  /// Beside the text: a token can follow one new n-gram of each length, each with one new count.
  static constexpr int bytes_per_token = Ngram::n_max * (NgramCounts::bytes_per_ngram + NgramCounts::bytes_per_count);

  NgramCacheDraft(int draft_max, const NgramCacheSettings& settings)
      : TextDraft(std::min(draft_max, settings.m)), lookup_(settings.lookup) {}

  std::size_t table_bytes() const noexcept { return counts_.bytes(); }

 protected:
  void learn(std::span<const Token> text, std::size_t learned) override;
  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) override;
  void clear() override;

 private:
  std::uint64_t weight(const Ngram& ngram, Token token) const;
  NgramCounts::Continuations continuations(std::span<const Token> text, const Ngram& ngram) const;
  std::optional<Token> next(std::span<const Token> text) const;

  std::shared_ptr<const NgramCounts> lookup_;
  NgramCounts counts_;         // of the text before the anchor
  std::vector<Token> window_;  // the last tokens of the text, and the draft tokens
};

}  // namespace draftproof
