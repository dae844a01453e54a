// SPDX-License-Identifier: MIT
// What `verify` runs at an effort, what it leaves out, and how long it is expected to take.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "oracle/checks/checks.h"
#include "oracle/checks/effort.h"
#include "oracle/plain/subject.h"

namespace draftproof {

/// What can be varied.
struct VerifySetup {
  std::vector<std::string> tables;  // kernel tables, the best first
  std::vector<std::string> drafts;  // those named on the command line
  std::vector<int> draft_tokens;    // of each draft: the most per round
  int draft_max = 0;                // for the named drafts; 0: the default of each
  const Rule* rule = &matching;
  Request request;
};

/// Returns the control drafts of the effort that were not named on the command line.
std::vector<std::string> plan_controls(const VerifySetup& setup, const Effort& effort);

/// Returns the runs: every named draft on the best table, with one and two threads, batched and serial, and once with
/// re-decoding; the same drafts with other lengths; the controls on the best table; and the named drafts on the other
/// tables, ordered so that each table is loaded once. The first run of each draft is on the best table, with two
/// threads and batched.
std::vector<Variation> plan_variations(const VerifySetup& setup, const Effort& effort);

/// Returns what full effort examines and this one does not, one clause each, and the rows of plain decoding that even
/// full effort does not recompute from scratch.
std::vector<std::string> left_out(const VerifySetup& setup, const Effort& effort);

/// Returns a text like "effort quick: 1 of 6 kernel tables, 6 of 80 runs, 8 of 64 plain rows recomputed from scratch".
std::string describe_scope(const VerifySetup& setup, const Effort& effort);

/// Seconds, on one thread.
struct Pace {
  double token = 0;       // per output token
  double prompt_row = 0;  // per prompt token
};
struct Paces {
  std::map<std::string, Pace> drafts;  // of every draft of the runs and "none", on the best table
  std::map<std::string, Pace> tables;  // of plain decoding, on every table of the runs
  double loading = 0;                  // seconds to load the weights once
};

/// Returns the seconds that each step is expected to take: the runs of plan_variations, the checks, and the timing.
std::vector<double> plan_steps(const VerifySetup& setup, const Effort& effort, const Paces& paces,
                               std::span<const Check* const> checks = all_checks());

/// Returns the expected seconds of the remaining steps when `done` steps took `elapsed` seconds: the estimates, scaled
/// by how much longer or shorter than estimated the finished steps took.
double seconds_left(const std::vector<double>& steps, std::size_t done, double elapsed);

/// "less than a minute", "3 minutes", "2.5 hours".
std::string in_words(double seconds);

}  // namespace draftproof
