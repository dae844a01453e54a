// SPDX-License-Identifier: MIT
// Distributions of wrong decoders. Given the target's distribution at a position (p) and the distribution a draft token
// for it was drawn from (q), a fault model returns the probabilities of the token that a decoder with one named fault
// emits there. oracle/sequential/e_process.h bets on them: it needs few tokens to find a fault that is modeled.
//
// The models of rules are exact up to rounding; tests/oracle enumerates the mutants themselves.
#pragma once

#include <span>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

/// The tokens with p > 0 or q > 0, ascending, and their probabilities: whole multiples of 2^-52, so exact. q is empty
/// where nothing was drafted.
struct PositionDistributions {
  std::vector<Token> tokens;
  std::vector<double> p;
  std::vector<double> q;
};

struct FaultModel {
  const char* name;
  const char* wrong;
  bool of_a_draft_token;  // applies only where there is a q
  /// Sets one probability for each of the tokens; they sum to 1 within rounding.
  void (*distribution)(const PositionDistributions& given, std::vector<double>& r);
};

std::span<const FaultModel> fault_models() noexcept;

}  // namespace draftproof
