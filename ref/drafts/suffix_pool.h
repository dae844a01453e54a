// SPDX-License-Identifier: MIT
// pool: outputs that were decoded before, in which later texts are looked up by the rule of suffix.h. The first draft
// token of a text is found too, as each output stands behind the last tokens of its prompt.
//
// What is proposed depends on the texts before, and so on who asked when. Under `matching` that changes no output.
// Under the other rules the output would have the target's distribution, but another sample of it, so a job
// with another rule has none (decode_job.h).
//
// A pool holds the last texts, of `max_tokens` / 2 to `max_tokens` tokens together: there are two trees, and when the
// newer is full, the older is dropped. Memory: SuffixCorpus::bytes_per_token for each of `max_tokens`.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "ref/drafts/draft.h"
#include "ref/drafts/suffix.h"

namespace draftproof {

class SuffixPool {
 public:
  static constexpr int max_tokens_min = 1024;

  /// `max_tokens` >= max_tokens_min.
  explicit SuffixPool(int max_tokens);

  /// Adds an output; of one that is longer than half of the pool, its end.
  void add(std::span<const Token> prompt, std::span<const Token> output);
  int tokens() const noexcept;

  /// Returns what is drafted after `text`, at most `limit` tokens.
  std::vector<Token> continuation(std::span<const Token> text, int limit) const;

 private:
  std::size_t half_max_;
  std::array<SuffixCorpus, 2> halves_;  // the newer first
};

/// Opens a draft over a pool, which may grow meanwhile, in the same thread. `draft_max`: draft tokens of a round, at
/// most.
std::unique_ptr<Draft> pool_draft(std::shared_ptr<const SuffixPool> pool, int draft_max);

}  // namespace draftproof
