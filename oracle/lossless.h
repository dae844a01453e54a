// SPDX-License-Identifier: MIT
// Compares one finished run, of any engine, with plain decoding of its target.
#pragma once

#include <cstdint>
#include <string>

#include "ref/acceptance/rule.h"
#include "ref/decoding/trace.h"
#include "ref/models/model.h"

namespace draftproof {

struct Losslessness {
  bool lossless = false;
  std::string message;  // what was examined; or the first failure; or why nothing was shown
};

/// Compares tokens, rows, verdicts, caches and counters of the trace, row by row, with plain decoding of the same
/// request by `target`. The trace must have been recorded with digests under `rule` with PhiloxSource(seed). It may
/// come from anywhere: what no run of `target` can have recorded is reported. Nothing passes that was not tested: a
/// trace without draft tokens is not called lossless, nor is one whose tokens were sampled (temperature above 0) under
/// a rule that the oracle cannot replay.
Losslessness examine(const Trace& trace, Model& target, const Rule& rule, std::uint64_t seed);

}  // namespace draftproof
