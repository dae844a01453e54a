// SPDX-License-Identifier: MIT
// The shortest program that says what the target says: no draft, no memory, no batch of sequences. Every row is
// computed afresh from the whole text before it.
#pragma once

#include <vector>

#include "ref/acceptance/chance.h"
#include "ref/acceptance/distribution.h"
#include "ref/base/digest.h"
#include "ref/decoding/trace.h"
#include "ref/models/model.h"

namespace draftproof {

/// z_token - log(sum of exp(z)), in double, token ascending: bits, not nearly.
double log_probability(std::span<const float> logits, Token token);

/// The target's row after `text`, which must not be empty.
std::vector<float> logits_after(Model& target, std::span<const Token> text);

struct PlainRow {
  Fingerprint logits;
  Distribution distribution;  // of the next token
};

/// The row after `text`, which must not be empty.
PlainRow plain_row(Model& target, const Sampling& sampling, std::span<const Token> text);

struct PlainRun {
  std::vector<Token> output;
  std::vector<PlainRow> rows;     // row i decided output[i]
  std::vector<double> logprobs;   // of output[i], by the row as the target gives it: before penalties and temperature
  Finish finish = Finish::unfinished;
};

PlainRun plain(Model& target, const Request& request, Chance& chance);

}  // namespace draftproof
