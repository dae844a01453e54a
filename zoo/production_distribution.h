// SPDX-License-Identifier: MIT
// The check distribution_exact of the production loop.
#pragma once

#include "oracle/checks/check.h"
#include "ref/acceptance/rule.h"

namespace draftproof::zoo {

/// Runs the production loop on all inputs of handwritten_cases, and of generated_case the first 200 with chains and the
/// first 100 with trees, and those of pairs_of_sequences, under one rule.
Finding check_production_distribution(const Rule& rule);

}  // namespace draftproof::zoo
