// SPDX-License-Identifier: MIT
// What wrong decoders say, as laws: given what the target would say at a position (p) and what a draft token for it was drawn
// from (q), the probabilities of the token that a decoder with one named fault puts there. Bets of oracle/sequential/e_process.h:
// who knows how decoders go wrong needs few tokens to see it.
//
// The law of a rule is exact, fractions of integers but for rounding; tests/oracle enumerates the mutants themselves.
#pragma once

#include <span>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

/// The tokens that p or q may say, ascending, and how likely: whole multiples of 2^-52, so exact. q is empty where
/// nothing was drafted.
struct PositionDistributions {
  std::vector<Token> tokens;
  std::vector<double> p;
  std::vector<double> q;
};

struct FaultModel {
  const char* name;
  const char* wrong;
  bool of_a_draft_token;  // means something only where there is a q
  /// Fills in one probability for each of the tokens; they sum to 1 but for rounding.
  void (*distribution)(const PositionDistributions& given, std::vector<double>& r);
};

std::span<const FaultModel> fault_models() noexcept;

}  // namespace draftproof
