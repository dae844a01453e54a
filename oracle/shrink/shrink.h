// SPDX-License-Identifier: MIT
// Shrinks a failing case to the smallest one found on which the same check still fails.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracle/checks/check.h"

namespace draftproof {

/// One request, in some variations, and the check that fails on it.
struct Case {
  std::string check;  // the name of one of all_checks()
  Request request;
  std::uint64_t seed = 0;
  std::vector<Variation> variations;
};

/// Returns what the check finds in a trial of the case.
Finding examined(Subject& subject, const Case& failing);

struct Shrunken {
  Case smallest;
  Finding finding;  // of the smallest
  int trials = 0;
};

/// As many as the user of a terminal waits for.
inline constexpr int trials_to_shrink = 400;

/// Leaves out what the failure does not need: variations, tokens of the prompt (one stays), stop tokens, sampling
/// parameters, new tokens, draft tokens per round, threads, the sequence number. Ends when nothing more can be left
/// out, after `trials_max` trials, or when `go_on` returns false. `found`: the check's failure on the case. `ask`:
/// returns the check's finding on another case; where a subject may keep state between requests, it must use a fresh
/// one.
Shrunken shrink(const Case& failing, const Finding& found, int trials_max,
                const std::function<Finding(const Case&)>& ask, const std::function<bool()>& go_on = {});

}  // namespace draftproof
