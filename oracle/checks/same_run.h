// SPDX-License-Identifier: MIT
// Compares two traces that must describe the same run. Draft tokens may differ where the rule makes the text
// independent of them: rounds are compared while their draft tokens are the same, and the text to its end where the
// same tokens are promised.
#pragma once

#include <optional>

#include "oracle/checks/check.h"
#include "ref/decoding/trace.h"

namespace draftproof {

/// Compares what remains of `expected` after its first `rounds` rounds with `found`. Returns the first difference,
/// whose `run` the caller fills in, or nothing. `whole`: `found` must go on to the end as `expected` does; else it may
/// end early, after a round.
std::optional<Failure> difference(const Trace& expected, std::size_t rounds, const Trace& found, bool whole,
                                  bool tokens_promised);

}  // namespace draftproof
