// SPDX-License-Identifier: MIT
// Whether two runs are one run, told twice. What a draft draft tokens is its own affair where the text does not depend on
// it: rounds are compared as long as the draft tokens are the same, and the text to its end where its tokens are promised.
#pragma once

#include <optional>

#include "oracle/checks/check.h"
#include "ref/decoding/trace.h"

namespace draftproof {

/// The rest of `expected` after its first `rounds` rounds, against `found`: what differs first (of which run is
/// for the caller to say), or nothing. `whole`: `found` goes on to the end, as `expected` does; else it may end early,
/// at a round.
std::optional<Failure> difference(const Trace& expected, std::size_t rounds, const Trace& found, bool whole,
                                  bool tokens_promised);

}  // namespace draftproof
