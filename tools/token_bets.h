// SPDX-License-Identifier: MIT
// Bets on the tokens of a run of `verify`, by their distributions in plain decoding alone. The checks prove more of one
// run; but these bets are evidence that runs with other random numbers add to (oracle/sequential/pooled_evidence.h).
#pragma once

#include "oracle/checks/check.h"
#include "oracle/report/report.h"

namespace draftproof {

TokenTest bet_on_tokens(Trial& trial, const Run& run);

}  // namespace draftproof
