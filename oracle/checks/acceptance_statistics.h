// SPDX-License-Identifier: MIT
// How often a draft token stands, from its p and q alone: whole numbers of 2^52 ways.
#pragma once

#include <cstdint>
#include <vector>

#include "oracle/checks/check.h"

namespace draftproof {

/// By `rejection`: the sum of min(p, q) over all tokens.
std::uint64_t overlap(const Distribution& p, const Distribution& q);

/// By `matching`, where both draw with one number: how many of the numbers below 2^52 fall on the same token along both
/// rows.
std::uint64_t agreement(const Distribution& p, const Distribution& q);

/// Of the draft tokens of one run that were judged, at one depth of their rounds (0: the first draft token).
struct Judged {
  long judged = 0;
  long accepted = 0;
  double expected = 0;  // of them to stand: a sum of exact probabilities
};

/// By depth; p from plain decoding, q as recorded. Draft tokens without their q are left out.
std::vector<Judged> judged_by_depth(Trial& trial, const Run& run);

/// [n]: rounds with draft tokens of which n stood.
std::vector<long> rounds_by_accepted(const Trace& trace);

}  // namespace draftproof
