// SPDX-License-Identifier: MIT
// What is known of p at one row: what bets and decisions are made with, wherever it comes from.
#pragma once

#include <optional>
#include <vector>

#include "oracle/sequential/rounded_distribution.h"
#include "oracle/spectrace/nearby_distribution.h"

namespace draftproof::spectrace {

/// What is known of the target's row after a text: at most one row from the target, and one that the trace states.
struct KnownRow {
  std::optional<Distribution> p;             // exact: the target's, or stated
  std::optional<RoundedDistribution> reals;  // stated
  std::optional<NearbyDistribution> near;    // the target's, where the sequence was computed in other numerics
  std::optional<BestToken> best;             // the same, of a greedy sequence
  bool own = false;                          // there is a target in the numerics of the sequence
  /// Of the suspects, in their order, where a row of the target is known and it is not greedy.
  std::vector<std::optional<Distribution>> suspected = {};

  /// Returns p as one distribution; nullptr where neither form is known.
  const Distribution* distribution() const noexcept { return p ? &*p : reals ? &reals->distribution : nullptr; }
};

}  // namespace draftproof::spectrace
