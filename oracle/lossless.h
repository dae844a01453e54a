// SPDX-License-Identifier: MIT
// One finished run, whoever ran it, held to plain decoding of its target.
#pragma once

#include <cstdint>
#include <string>

#include "ref/acceptance/rule.h"
#include "ref/decoding/trace.h"
#include "ref/models/model.h"

namespace draftproof {

struct Losslessness {
  bool lossless = false;
  std::string message;  // what was looked at; or the first thing wrong; or why nothing was shown
};

/// Tokens, rows, verdicts, caches and counts of the trace, which was recorded with digests under `rule` with
/// PhiloxSource(seed), against what `target` says of the same request, row by row. The trace may be from anywhere: what
/// no run over `target` can have recorded is said to be so. Nothing that was not put to the test passes: a trace
/// without a draft token is not called lossless, nor is one whose tokens were drawn (temperature above 0) under a rule that
/// the oracle has no account of.
Losslessness examine(const Trace& trace, Model& target, const Rule& rule, std::uint64_t seed);

}  // namespace draftproof
