// SPDX-License-Identifier: MIT
// Log-probabilities that an engine reports to its users.
#pragma once

#include <cstddef>

#include "oracle/spectrace/known_row.h"
#include "oracle/spectrace/replayed_round.h"

namespace draftproof::spectrace {

/// Checks the log-probabilities of the token at this row, and of the likeliest ones, against the row or the target's
/// logits. Names those that could be compared with neither.
void hold_logprobs(const ReplayedRound& r, std::size_t row, const KnownRow& known);

}  // namespace draftproof::spectrace
