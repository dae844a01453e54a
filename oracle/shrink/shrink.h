// SPDX-License-Identifier: MIT
// The smallest case found that one check still fails: what is handed to whoever has to mend it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracle/checks/check.h"

namespace draftproof {

/// One request, in some variations, and the check that fails on it.
struct Case {
  std::string check;  // a row of all_checks()
  Request request;
  std::uint64_t seed = 0;
  std::vector<Variation> variations;
};

/// What the check says of a trial of the case.
Finding examined(Subject& subject, const Case& failing);

struct Shrunken {
  Case smallest;
  Finding finding;  // of the smallest
  int trials = 0;
};

/// Enough for what a terminal's user waits for.
inline constexpr int trials_to_shrink = 400;

/// Leaves out whatever the failure does not need, until nothing can be left out, `trials_max` trials were made, or
/// `go_on` says no: variations, tokens of the prompt (one stays), stop tokens, sampling parameters, tokens to be said,
/// draft tokens per round, threads, the sequence's number. `found`: what the check said of the case; a failure. `ask`:
/// says the same of another; where a subject may remember what it was asked before, of a fresh one.
Shrunken shrink(const Case& failing, const Finding& found, int trials_max,
                const std::function<Finding(const Case&)>& ask, const std::function<bool()>& go_on = {});

}  // namespace draftproof
