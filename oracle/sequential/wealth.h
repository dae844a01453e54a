// SPDX-License-Identifier: MIT
// How the sequential tests spread wealth: every so often a share of it goes to all bets alike, so that a bet that lost
// early can still win later.
#pragma once

namespace draftproof {

inline constexpr int spread_interval = 64;  // observations from one spreading to the next
inline constexpr double spread_share = 0x1p-14;
inline constexpr double wealth_enough = 0x1p900;  // more is not needed, and one payment more still fits a double

}  // namespace draftproof
