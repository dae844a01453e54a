// SPDX-License-Identifier: MIT
// Questions about the joint distribution that are small enough to be answered by enumeration: some written by hand, and
// any number generated. The caller makes the model that is described, and must know the drafts perturbed,
// always-reject, perfect and scripted:SCRIPT.
#pragma once

#include <cstdint>
#include <vector>

#include "oracle/exact/exact_distribution.h"

namespace draftproof {

/// An input and its model: hash model number `seed` with this vocabulary, whose rows have at most `levels` different
/// logits, `spread` apart.
struct ExactCase {
  int vocabulary = 3;
  int levels = 3;
  int spread = 1;
  std::uint64_t seed = 5;
  ExactInput input = {};
};

/// Returns cases with every script, draft and way of sampling: short texts over few tokens, and longer ones over eight.
std::vector<ExactCase> handwritten_cases(const Rule& rule);

/// Two requests over one model.
struct ExactPairCase {
  int vocabulary = 3;
  int levels = 2;
  std::uint64_t seed = 5;
  ExactPair pair = {};
};

/// Returns cases of two sequences that are decoded together, with different drafts, sampling and moments of joining.
std::vector<ExactPairCase> pairs_of_sequences(const Rule& rule);

enum class DraftShape : std::uint8_t { chains, trees };

/// Returns case number `number`: a vocabulary of at most 8, texts of at most 6 tokens, at most 4 draft tokens a round.
/// Where it would take more than about `paths_max` paths, the text is made shorter.
ExactCase generated_case(const Rule& rule, int number, double paths_max, DraftShape drafted = DraftShape::chains);

}  // namespace draftproof
