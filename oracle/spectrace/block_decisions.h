// SPDX-License-Identifier: MIT
// What a round by the rule `block` decides: how many of its draft tokens are accepted, together, and which token
// follows them.
#pragma once

#include "oracle/spectrace/replayed_round.h"

namespace draftproof::spectrace {

/// Decides the round again where its rows are stated and its coins follow from the seed: those of our own engine
/// (ref/acceptance/block.cpp). Else names in the report that this is not done.
void check_block(const ReplayedRound& r);

}  // namespace draftproof::spectrace
