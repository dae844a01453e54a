// SPDX-License-Identifier: MIT
// What `verify` runs at an effort, what it leaves out, and how long that is likely to take.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "oracle/checks/effort.h"
#include "oracle/plain/subject.h"

namespace draftproof {

/// What there is to vary.
struct VerifyQuestion {
  std::vector<std::string> tables;  // of kernels, the best first
  std::vector<std::string> drafts;  // the named ones
  std::vector<int> draft_tokens;         // most per round, of each
  bool trees = true;                // a control may draft token trees
  int draft_max = 0;                // of the named drafts; 0: as suits each
  const Rule* rule = &matching;
  Request request;
};

/// Drafts that nobody named, as many as the effort asks for.
std::vector<std::string> controls_of(const VerifyQuestion& question, const Effort& effort);

/// Every named draft on the best table, with one and two threads, batched and serial; at other lengths; the controls,
/// which need no length or table of their own; and the named drafts on the other tables, so that each table is loaded
/// once. The first run of each draft is on the best table, with one thread and batched.
std::vector<Variation> variations_of(const VerifyQuestion& question, const Effort& effort);

/// What full effort would look at and this one does not, a clause each. Of plain rows, what even full effort does not
/// compute afresh.
std::vector<std::string> left_out(const VerifyQuestion& question, const Effort& effort);

/// "effort quick: 1 of 6 kernel tables, 6 of 80 runs, 8 of 64 plain rows read afresh".
std::string scope_of(const VerifyQuestion& question, const Effort& effort);

/// Seconds, on one thread.
struct Pace {
  double token = 0;       // of output
  double prompt_row = 0;
};
struct Paces {
  std::map<std::string, Pace> drafts;  // of the plan, and "none", on the best table
  std::map<std::string, Pace> tables;  // of the plan, without a draft
  double loading = 0;                  // of the weights, once
};

/// Seconds that each step is likely to take: the runs of variations_of, then all_checks, then what follows them.
std::vector<double> steps_of(const VerifyQuestion& question, const Effort& effort, const Paces& paces);

/// What is left when `done` steps were done in `elapsed` seconds: what was foreseen for the rest, as much longer or
/// shorter as those took than was foreseen.
double seconds_left(const std::vector<double>& steps, std::size_t done, double elapsed);

/// "less than a minute", "3 minutes", "2.5 hours".
std::string in_words(double seconds);

}  // namespace draftproof
