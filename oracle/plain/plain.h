// SPDX-License-Identifier: MIT
// Plain autoregressive decoding, "plain decoding" everywhere else: no draft, one token after the other. It is what
// every speculative run is compared with. A row is recomputed from the whole text before it; where a long text makes
// that too slow, only a sample of the rows is, and the others continue a KV cache.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/random_source.h"
#include "ref/base/digest.h"
#include "ref/decoding/trace.h"
#include "ref/models/model.h"

namespace draftproof {

/// Returns z_token - log(sum of exp(z)), computed in double, the sum by ascending token: equal bits, not nearly equal.
double log_probability(std::span<const float> logits, Token token);
double log_probability(std::span<const double> logits, Token token);

/// Returns the `count` tokens with the highest logits, all tokens when there are fewer, with these numbers: by
/// descending logit, of equal ones the smaller token first.
std::vector<TokenLogprob> top_log_probabilities(std::span<const float> logits, int count);

/// Returns what a row says of the token that the prompt has there, with `top` of the most likely ones.
PromptLogprob prompt_logprob(std::span<const float> logits, Token token, int top);

/// Returns the target's logits after `text`, which must not be empty, from a new cache, which `shift` keeps within its
/// context.
std::vector<float> logits_after(Model& target, std::span<const Token> text,
                                const std::optional<ContextShift>& shift = {});

/// Returns the logits after a text that grows. Each token is read once and stays in a cache, so a fault of the target's
/// cache shows here too.
class GrowingText {
 public:
  /// `capacity`: the most tokens the text will have, or that the cache holds under a context shift. The target must
  /// outlive this object.
  GrowingText(Model& target, int capacity, const std::optional<ContextShift>& shift = {})
      : target_(target), capacity_(shift ? std::min(capacity, shift->context) : capacity), shift_(shift) {}

  /// `text` is the text of the last call and at least one token more.
  std::vector<float> logits_after(std::span<const Token> text);

  /// Drops positions [keep, keep + discard) of the cache, which has them and can (Cache::discard_error).
  void discard(int keep, int discard) { cache_->discard(keep, discard); }
  /// Returns the digest of the cache, which has read a text.
  Fingerprint digest() const { return cache_->digest(); }

 private:
  Model& target_;
  int capacity_;
  std::optional<ContextShift> shift_;
  std::size_t read_ = 0;  // tokens of the text
  std::unique_ptr<Cache> cache_;
};

struct PlainRow {
  Fingerprint logits;
  Distribution distribution;  // of the next token
};

/// Returns the row whose logits, those after `text`, are given. `allowed`: what masks it; nullptr: nothing.
PlainRow row_of(std::span<const float> logits, const Sampling& sampling, std::span<const Token> text,
                const TokenSet* allowed = nullptr);

/// Returns the row after `text`, which must not be empty.
PlainRow plain_row(Model& target, const Sampling& sampling, std::span<const Token> text);

/// Returns what masks the row after a text of the request; nullopt: nothing does, or the text has ended, or has an
/// output that is not possible. It reads the whole output.
std::optional<TokenSet> allowed_after(const Request& request, std::span<const Token> text);

/// Returns whether a text of the request ends with its last token: a stop token, or one after which nothing may follow.
bool ends_at_last(const Request& request, std::span<const Token> text);

/// As `max` or `fresh_rows` below: every row is recomputed from the whole text.
inline constexpr int every_row = std::numeric_limits<int>::max();

/// Returns whether the row after `tokens` tokens of a text of the request is one of the `max` rows that are recomputed
/// from the whole text. They are spread evenly, and the row of the last token that may be emitted is one of them.
bool is_fresh_row(const Request& request, std::size_t tokens, int max);

/// Returns the rows after the first `from`, `from` + 1, ... tokens of a text of the request, up to the whole text.
std::vector<PlainRow> plain_rows(Model& target, const Request& request, std::span<const Token> text, std::size_t from,
                                 int fresh_rows);

struct PlainRun {
  std::vector<Token> output;
  std::vector<PlainRow> rows;    // output[i] is drawn from rows[i]
  std::vector<double> logprobs;  // of output[i] in the target's logits: before penalties and temperature
  /// Of the most likely tokens at its place: Request::top_logprobs_max of them, whatever the request asks for.
  std::vector<std::vector<TokenLogprob>> top_logprobs;
  Finish finish = Finish::unfinished;
};

/// Decodes the request. At most `fresh_rows` rows are recomputed from the whole text, the others continue a cache.
PlainRun plain(Model& target, const Request& request, RandomSource& random, int fresh_rows = every_row);

}  // namespace draftproof
