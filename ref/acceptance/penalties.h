// SPDX-License-Identifier: MIT
// What the text before a row takes from its logits: the three penalties of OpenAI's API and Hugging Face, and DRY. They
// are functions of that text, so nothing that a rejected draft token did can stay behind.
#pragma once

#include <span>

#include "ref/acceptance/sampling_params.h"
#include "ref/acceptance/token_set.h"
#include "ref/base/token.h"

namespace draftproof {

/// The text that a row of logits continues: the committed tokens, then the draft tokens before that row.
struct History {
  std::span<const Token> committed;
  std::span<const Token> drafted;
};

/// For each distinct token among the last `repeat_last_n` tokens of the history, with count c:
/// z = (z < 0 ? z * repeat : z / repeat) - presence, then z = z - frequency * c. Tokens beyond the row are ignored.
void penalize(std::span<float> z, const Sampling& sampling, const History& history);

/// DRY: for each token that would go on with a repetition, z = z - multiplier * base^(n - allowed). n is the length of
/// the longest end of the last `dry_penalty_last_n` tokens that is found elsewhere among them before this token; no end
/// reaches over a breaker, breakers lose nothing, and where n < allowed nothing is lost. The power is a product in
/// double, at most the largest float; so is what is taken.
///
/// Example: after a b c d a b c, with 2 allowed, d loses multiplier * base.
void penalize_repetition(std::span<float> z, const Sampling& sampling, const History& history);

/// Throws the Error of a row that has no distribution: a logit is NaN or +infinity, or none is finite.
[[noreturn]] void throw_unusable(std::span<const float> z, const TokenSet* allowed);

}  // namespace draftproof
