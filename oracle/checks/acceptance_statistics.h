// SPDX-License-Identifier: MIT
// How often a draft token is accepted, computed exactly from its p and q: whole numbers out of 2^52.
#pragma once

#include <cstdint>
#include <vector>

#include "oracle/checks/check.h"

namespace draftproof {

/// Returns 2^52 times the acceptance probability under `rejection`: the sum of min(p, q) over all tokens.
std::uint64_t overlap(const Distribution& p, const Distribution& q);

/// Returns 2^52 times the acceptance probability under `matching`, where draft and target draw with one number: how
/// many of the numbers below 2^52 select the same token in both rows.
std::uint64_t agreement(const Distribution& p, const Distribution& q);

/// The verified draft tokens of a run at one depth of their rounds (0: the first draft token).
struct Judged {
  long judged = 0;
  long accepted = 0;
  double expected = 0;  // to be accepted: a sum of exact probabilities
};

/// Returns the counts by depth; p from plain decoding, q as recorded. Left out are draft tokens without their q, and
/// chains by `block`, whose draft tokens are not accepted one by one.
std::vector<Judged> judged_by_depth(Trial& trial, const Run& run);

/// [n]: rounds with draft tokens of which n were accepted.
std::vector<long> rounds_by_accepted(const Trace& trace);

}  // namespace draftproof
