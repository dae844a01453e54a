// SPDX-License-Identifier: MIT
// What a round decides at each row of the target: whether a draft token is accepted, and which token follows the
// accepted ones. One function for each rule; integers are compared exactly, of reals only what rounding cannot turn.
#pragma once

#include <cstddef>

#include "oracle/spectrace/known_row.h"
#include "oracle/spectrace/replayed_round.h"

namespace draftproof::spectrace {

/// Checks what was decided at a row that was verified: of draft token `row`, or of the token after all of them. Bets on
/// its coins, or pays for them.
void check_decision(const ReplayedRound& r, std::size_t row, const KnownRow& known);

}  // namespace draftproof::spectrace
