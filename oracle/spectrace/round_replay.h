// SPDX-License-Identifier: MIT
// The replay of one round: from its line, its rows and its coins follow the findings. Checks that its draft tokens were
// drawn, accepted and emitted as the rule requires, row by row; bets on every decision; then adds the round to its
// sequence.
//
//     replay_round({header, target, round, sequence, rows, coins, evidence, report, Findings(report, place)});
#pragma once

#include "oracle/spectrace/replayed_round.h"

namespace draftproof::spectrace {

/// `r.round` is the next round of `r.sequence`, which `r.rows` and `r.coins` have opened. Throws TooManyFindings.
void replay_round(ReplayedRound r);

}  // namespace draftproof::spectrace
