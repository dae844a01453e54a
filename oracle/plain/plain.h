// SPDX-License-Identifier: MIT
// The shortest program that says what the target says: no draft, no memory, no batch of sequences. Every row is
// computed afresh from the whole text before it; of a long text, where that is too much, a sample of them.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "ref/acceptance/random_source.h"
#include "ref/acceptance/distribution.h"
#include "ref/base/digest.h"
#include "ref/decoding/trace.h"
#include "ref/models/model.h"

namespace draftproof {

/// z_token - log(sum of exp(z)), in double, token ascending: bits, not nearly.
double log_probability(std::span<const float> logits, Token token);

/// The target's row after `text`, which must not be empty.
std::vector<float> logits_after(Model& target, std::span<const Token> text);

/// The same for a text that grows: a token is read once and stays in a cache. What is wrong with the target's cache is
/// wrong here, too.
class GrowingText {
 public:
  /// `capacity`: tokens at most. The target outlives the text.
  GrowingText(Model& target, int capacity) : target_(target), capacity_(capacity) {}

  /// The row after `text`: the last one and at least one token more.
  std::vector<float> logits_after(std::span<const Token> text);

 private:
  Model& target_;
  int capacity_;
  std::unique_ptr<Cache> cache_;
  std::size_t read_ = 0;
};

struct PlainRow {
  Fingerprint logits;
  Distribution distribution;  // of the next token
};

/// Of the logits after `text`.
PlainRow row_of(std::span<const float> logits, const Sampling& sampling, std::span<const Token> text);

/// The row after `text`, which must not be empty.
PlainRow plain_row(Model& target, const Sampling& sampling, std::span<const Token> text);

/// `most` rows of every text, for rows computed afresh.
inline constexpr int every_row = std::numeric_limits<int>::max();

/// Whether the row after that many tokens of a text of the request is one of the `most` that are computed afresh. They
/// are spread evenly, and the row that decides the last token that may be said is one of them.
bool is_read_afresh(const Request& request, std::size_t tokens, int most);

/// The rows after the first `from`, `from` + 1, ... tokens of a text of the request, up to all of them.
std::vector<PlainRow> plain_rows(Model& target, const Request& request, std::span<const Token> text, std::size_t from,
                                 int afresh);

struct PlainRun {
  std::vector<Token> output;
  std::vector<PlainRow> rows;     // row i decided output[i]
  std::vector<double> logprobs;   // of output[i], by the row as the target gives it: before penalties and temperature
  Finish finish = Finish::unfinished;
};

/// `afresh`: rows computed so; the others go on with a cache.
PlainRun plain(Model& target, const Request& request, RandomSource& random, int afresh = every_row);

}  // namespace draftproof
