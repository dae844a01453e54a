// SPDX-License-Identifier: MIT
// How long a check is expected to take, said by the check itself (Check::cost) in terms of a trial's work.
#pragma once

#include "oracle/checks/effort.h"

namespace draftproof {

/// Expected seconds and numbers of a trial. Seconds are those of one thread and the best kernel table.
struct TrialCosts {
  const Effort& effort;
  double prompt = 0;         // tokens
  double output = 0;         // tokens, at most
  double texts = 0;          // distinct ones that the runs may have
  double ways = 0;           // tables and numbers of threads of the runs, each weighed by how slow its table is
  double plain_row = 0;      // plain decoding: a row of the prompt
  double plain_token = 0;    //                 an output token
  double plain_run = 0;      //                 a text
  double plain_rows = 0;     //                 a text, and the rows that are recomputed from the whole text
  double first_run = 0;      // a run of the first draft
  double repeated_runs = 0;  // a run of each draft whose request is run again
  double loading = 0;        // of the weights, for every table but the best
};

/// Of a check that compares what the runs have recorded and other checks have computed.
inline double costs_nothing(const TrialCosts&) { return 0; }

}  // namespace draftproof
