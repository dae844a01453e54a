// SPDX-License-Identifier: MIT
// A constraint of outputs for the vocabularies of the zoo. It leaves choices, none (after token 4 only token 2 may
// follow), ends texts inside of rounds, and lets stop tokens end others that might go on.
#pragma once

#include <memory>
#include <vector>

#include "oracle/exact/exact_cases.h"
#include "ref/acceptance/constraint.h"

namespace draftproof::zoo {

inline constexpr int zoo_output_length = 9;  // of the constraint that mutants and controls are asked with

/// Of the tokens 0 to `vocabulary` - 1, those t may follow for which t plus the sum of the output is no multiple of
/// three. An output of `length` tokens is complete. `stops`: the stop tokens of the request; one may follow an output
/// of an odd sum, which ends with it, and nowhere else.
std::shared_ptr<const Constraint> zoo_constraint(int vocabulary, int length, std::vector<Token> stops = {});

/// Returns inputs whose texts the constraint ends, may end, or lets go on, small enough to be enumerated: with
/// drafts that foresee a stop token and drafts that do not.
std::vector<ExactCase> constrained_cases(const Rule& rule);

}  // namespace draftproof::zoo
