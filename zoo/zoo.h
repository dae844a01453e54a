// SPDX-License-Identifier: MIT
// A zoo of wrong decoders ("mutants"), each wrong in one way and most of them found in real projects, with the checks
// that must catch them; and of right decoders that look unusual ("controls"), which no check may flag. All of them are
// given the same requests.
//
// The first letter of an id is the group: A acceptance and q, B random numbers, C sampling parameters, D the end of the
// text, E caches, F and G state between rounds, H drafts, L logprobs, R several of these, S counters, X our own,
// N controls.
//
// The stage of the decode loop that a mutant breaks:
//   D1 draw draft tokens        D2 state q                  D3 update the draft
//   V1 anchor and draft tokens  V2 positions                V3 attention mask    V4 row for each draft token
//   W1 row to distribution      A1 accept or reject         A2 stop at the first rejection
//   R1 replacement              B1 bonus token              T1 end of the text
//   K1 the target's KV cache    K2 the draft's KV cache     K3 recurrent state   K4 sliding windows
//   K5 shared prefixes          K6 context shifts           P1 counters of penalties    Q1 keys of random draws
//   B2 sequences of a batch     L1 logprobs                 S1 counters
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/checks/check.h"
#include "oracle/exact/exhaustive_small_cases.h"
#include "oracle/report/report.h"
#include "oracle/shrink/shrink.h"
#include "ref/models/hash.h"
#include "zoo/loop.h"
#include "zoo/parts.h"

namespace draftproof::zoo {

/// What is wrong when requests are decoded together.
enum class JointFault : std::uint8_t {
  none,
  sampling_of_neighbor,  // each sequence has the sampling parameters of the next one
  keys_by_place,         // random numbers are keyed by the place in the batch
  draft_not_restored,    // the prefix cache knows the target's cache only
  q_of_neighbor,         // one buffer for the q of all sequences
};

/// Replacements for parts of the production loop.
struct Parts {
  const Rule* rule = nullptr;      // runs in place of the requested rule of the same name
  const Rule* declared = nullptr;  // is requested in place of the rule of the same name
  RowReader reader = nullptr;      // turns logits into distributions; run by exhaustive_small_cases only
  NewTarget target = nullptr;
  NewRandomSource random = nullptr;
  NewDraft draft = nullptr;        // in place of "perturbed"
  std::optional<Fault> loop = {};  // the small loop with this fault in place of the production loop
  bool first_asked = false;        // sampling and stop tokens of the first request are used for all
  JointFault joint = JointFault::none;
  bool trees = false;      // drafts propose token trees; the other parts of the zoo support chains only
  bool recurrent = false;  // the models keep a state, not the text
};

/// What is wrong with the result. A mutant of `speed` leaves every text right: only the state of its draft is wrong,
/// and it must never be called lossy.
enum class Harm : std::uint8_t {
  lossy,   // the text or its distribution is wrong
  latent,  // the text is right, the state left behind is not: a later text will be wrong
  counts,  // what is reported about the text is wrong
  speed,   // the draft proposes worse draft tokens than it could
  none,    // a control
};
const char* name_of(Harm harm) noexcept;

struct Mutant {
  const char* id;
  const char* name;
  const char* stage;  // that it breaks; of a control: that it seems to break
  const char* issue;  // upstream, where it was found; "" for our own
  Harm harm;
  const char* cause;  // of a control: why it is right
  std::vector<const Check*> expected_failures;
  Parts parts;
};

std::span<const Mutant> all_mutants();
std::span<const Mutant> all_controls();  // caught by nothing; the first two are the loops without a fault

const Mutant* find(std::string_view id);  // mutant or control; nullptr when there is none

using Findings = std::map<std::string, Finding>;  // by check

/// Returns what every check finds in one decoder, over all trials and joint distributions. `fail` in one trial is
/// `fail`; `vacuous` means vacuous in all of them.
Findings examined(const Parts& parts);

/// The first trial in which a check of all_checks() flags the decoder.
struct FailedTrial {
  HashShape model;
  Case trial;
  Finding finding;
};
std::optional<FailedTrial> first_failed_trial(const Parts& parts, const std::string& check);
/// Shrinks the trial. Every trial gets a fresh decoder, because some are wrong in the state they keep.
Shrunken smallest(const Parts& parts, const FailedTrial& failed, int trials_max);

/// Returns the names of all checks, in the order of the matrix.
std::vector<std::string> check_names();

/// Returns whether a mutant is caught by all checks that must catch it, or a control passes every check.
bool as_expected(const Mutant& mutant, const Findings& findings);

struct Row {
  const Mutant* mutant;
  Findings findings;
};

/// Returns the matrix of mutants and checks, with what each mutant is.
Matrix matrix_of(std::span<const Row> rows);
/// Returns a finding about the checks, not about the decoder: it fails when as_expected() is false.
Finding make_finding(const Row& row);

}  // namespace draftproof::zoo
