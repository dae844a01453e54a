// SPDX-License-Identifier: MIT
// Questions of the joint law that are small enough to be answered by enumeration: some made by hand, and endlessly many
// by number. Who asks makes the model that is described, and knows the drafts that are named: dialect, hostile,
// oracular and scripted:SCRIPT.
#pragma once

#include <cstdint>
#include <vector>

#include "oracle/exact/exact_distribution.h"

namespace draftproof {

/// A question and the model it is for: `seed` of all those of this many tokens, whose rows have at most `levels`
/// different logits, `spread` apart.
struct ExactCase {
  int vocabulary = 3;
  int levels = 3;
  int spread = 1;
  std::uint64_t seed = 5;
  ExactQuestion question = {};
};

/// Every script, draft and way of sampling, each in play: short texts of few tokens, and longer ones of eight.
std::vector<ExactCase> handwritten_cases(const Rule& rule);

enum class DraftShape : std::uint8_t { chains, trees };

/// At most 8 tokens, texts of at most 6, at most 4 draft tokens a round. What else: as `number` has it. Of those that
/// would take more than about `paths_most` paths the text is made shorter.
ExactCase generated_case(const Rule& rule, int number, double paths_most, DraftShape drafted = DraftShape::chains);

}  // namespace draftproof
