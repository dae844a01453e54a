// SPDX-License-Identifier: MIT
// How draft tokens were drawn.
#pragma once

#include <cstddef>

#include "oracle/spectrace/replayed_round.h"

namespace draftproof::spectrace {

/// Checks that draft token j was drawn from its q, and bets on it where it was verified. Names in the report what the
/// trace does not state of it.
void expect_drafted(const ReplayedRound& r, std::size_t j);

}  // namespace draftproof::spectrace
