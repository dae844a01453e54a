// SPDX-License-Identifier: MIT
// A zoo of wrong decoders, each wrong in one way and most of them found in the wild, with the checks that must catch
// them; and right decoders that look odd, which no check may flag. Every one of them is put the same questions.
//
// The first letter of an id is the group: A acceptance and q, B random numbers, C sampling parameters, D the end of the
// text, E caches, F and G state between rounds, H drafts, L log-probabilities, S counts, X our own, N controls.
//
// The line a mutant breaks, of what every decoder does:
//   D1 draw draft tokens    D2 say what from    D3 tell the draft
//   V1 anchor and draft tokens    V2 positions    V3 what a row sees    V4 which row judges    W1 row to distribution
//   A1 stand or fall    A2 up to the first that falls    R1 replacement    B1 token after all stood    T1 the end
//   K1 keep the target's cache    K2 the draft's    K3 recurrent state    K4 windows    K5 prefixes that others read
//   P1 counters of penalties    Q1 keys of chance    B2 rows of a batch    L1 log-probabilities    S1 counts
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/checks/check.h"
#include "oracle/report/report.h"
#include "oracle/shrink/shrink.h"
#include "ref/models/hash.h"
#include "zoo/loop.h"
#include "zoo/parts.h"

namespace draftproof::zoo {

/// What takes the place of a sound part of the production loop.
struct Parts {
  const Rule* rule = nullptr;      // judges in place of the rule of the same name
  const Rule* declared = nullptr;  // is asked for in place of the rule of the same name
  NewTarget target = nullptr;
  NewRandomSource random = nullptr;
  NewDraft draft = nullptr;           // in place of "dialect"
  std::optional<Fault> loop = {};     // the small loop with this fault in place of the production loop
  bool first_asked = false;           // sampling and stop tokens of the first request are everybody's
  bool trees = false;                 // drafts draft token trees; the other parts of the zoo know chains only
};

/// Who is harmed. A mutant of `speed` leaves every text right: it is wrong in what its draft remembers, and must never
/// be called lossy.
enum class Harm : std::uint8_t {
  lossy,   // the text or its law is wrong
  latent,  // the text is right, what is left behind is not: a later text will be wrong
  counts,  // what is told of the text is wrong
  speed,   // the draft draft tokens worse than it could
  none,    // a control
};
const char* name_of(Harm harm) noexcept;

struct Mutant {
  const char* id;
  const char* name;
  const char* stage;  // of the round, that it breaks; of a control: that it seems to break
  const char* issue;  // upstream, where it was found; "" for our own
  Harm harm;
  const char* cause;   // of a control: why it is right
  std::vector<std::string_view> expected_failures;
  Parts parts;
};

std::span<const Mutant> all_mutants();
std::span<const Mutant> all_controls();  // caught by nothing; the first two are the sound loops

const Mutant* find(std::string_view id);     // mutant or control; nullptr when there is none

using Findings = std::map<std::string, Finding>;  // by check

/// What every check says of one decoder, over all trials and joint laws. `fail` in one trial is `fail`; `vacuous` is
/// what was vacuous in all of them.
Findings examined(const Parts& parts);

/// The first trial on which a check of all_checks() flags the decoder, as it was put to it.
struct FailedTrial {
  HashShape model;
  Case trial;
  Finding finding;
};
std::optional<FailedTrial> first_failed_trial(const Parts& parts, const std::string& check);
/// The same, shrunken; every trial is put to a fresh decoder, as some are wrong in what they remember.
Shrunken smallest(const Parts& parts, const FailedTrial& failed, int trials_max);

/// Names of all checks, in the order of the matrix.
std::vector<std::string> check_names();

/// A mutant is caught by all the checks that must catch it, and a control passes everything.
bool as_expected(const Mutant& mutant, const Findings& findings);

struct Row {
  const Mutant* mutant;
  Findings findings;
};

/// The matrix of mutants and checks, and what each mutant is.
Matrix matrix_of(std::span<const Row> rows);
/// Of the checks, not of the decoder: it fails when the decoder is not as it must be.
Finding finding_of(const Row& row);

}  // namespace draftproof::zoo
