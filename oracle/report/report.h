// SPDX-License-Identifier: MIT
// A report as data. Text, JSON, JUnit XML, SARIF and one HTML page are made from it and from nothing else.
// docs/report.md is the schema of the JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oracle/checks/acceptance_statistics.h"
#include "oracle/checks/check.h"

namespace draftproof {

enum class ReportVerdict : std::uint8_t {
  pass_exact,       // everything examined is exactly right
  pass_stat,        // not everything could be replayed; sequential tests of the rest found no deviation
  bug_proven,       // two facts cannot both be right
  bug_stat,         // a right decoder emits such tokens with probability alpha at most
  perf_regression,  // no fault of the text was found, but the draft is worse than it could be
  undecided,        // something is missing from the trace, so it was not examined
  vacuous,          // nothing was tested
  invalid_trace,    // the file is not a trace
};
const char* name_of(ReportVerdict verdict) noexcept;  // "PASS_EXACT", ...
/// Returns bug_proven for any failure; else perf_regression for any of these; else vacuous for anything vacuous, or
/// where there is a reason; else pass_exact.
ReportVerdict verdict_of(const std::vector<Finding>& findings, const std::string& reason);
/// Returns the exit code of the command: 0 pass, 1 bug, 2 undecided or vacuous, 3 invalid trace, 4 a slower draft.
int exit_status(ReportVerdict verdict) noexcept;

struct Spread {  // seconds of several interleaved repeats
  double median = 0;
  double min = 0;
  double max = 0;
};
Spread spread_of(std::vector<double> seconds);

/// Draft tokens at one depth of a round, and how many should be accepted by their own p and q
/// (oracle/checks/acceptance_statistics.h).
using Depth = Judged;

/// Results of speculative decoding with one draft.
struct DraftReport {
  std::string name;
  Statistics statistics;
  double tokens_per_round = 0;
  Fingerprint logits;          // of all rows that the rule used
  Spread seconds;              // decoding only, without the prefill
  std::vector<Depth> depths;   // [0]: the first draft token of a round; only draft tokens whose p and q are known
  std::vector<long> accepted;  // [n]: rounds with draft tokens of which n were accepted
  std::string untested;        // why passing proves nothing of this draft; empty when it was put to the test
};

/// A sequential test of the tokens against their distribution (oracle/sequential/e_process.h).
struct TokenTest {
  long tokens = 0;
  double alpha = 0;
  double slack = 0;
  double e_value = 1;             // the largest wealth; infinite after a token with p = 0
  double smallest_deviation = 1;  // of a fault model, that would have been found with probability 0.99; 1: none
  std::string suspect;            // the bet that has most of the wealth
  std::vector<std::pair<long, double>> curve;  // tokens, e-value: at most 512 points, the last is the end
  std::vector<double> by_bet = {};             // of verify: what each bet has made of 1, for a campaign to multiply
};

/// Another sequential test of a trace: of its coins, its draft tokens, its acceptance.
struct Bets {
  std::string about;
  long observed = 0;  // coins, tokens, ...
  double alpha = 0;
  double e_value = 1;  // the largest wealth
  bool alarm = false;
  std::string message;
};

/// Where two texts first differ, as text where there is a tokenizer, else as ids.
struct Divergence {
  std::string run;
  std::int64_t round = -1;
  std::int64_t position = -1;
  std::string before;  // the end of the common text
  std::string plain;   // the token and what follows it, in plain decoding
  std::string observed;
  std::string draft_tokens;  // of that round
};

/// Where two texts of one greedy request part, and how that is explained (docs/compare.md).
struct TextDifference {
  std::string run;
  std::int64_t position = -1;  // in the text, the prompt included
  std::string plain;           // what the plain engine writes there: a token, or the end
  std::string observed;
  std::string explanation;    // "TIE", "NOT_EXPLAINED", "BUG"
  std::optional<double> gap;  // of the observed token below the best, in logits; nullopt: not known
  bool gap_at_least = false;
  std::string gap_from;  // who says so
};
std::string describe_gap(const TextDifference& difference);

/// Wrong and right decoders, and the outcome of each check on them.
struct Matrix {
  struct Row {
    std::string id;
    std::string name;
    std::string harm;
    std::string cause;
    bool as_expected = false;
    std::vector<Outcome> outcomes;                    // by check
    std::string stage = {};                           // of the decode loop, that it breaks
    std::string issue = {};                           // upstream, where it was found; empty for our own
    std::vector<std::string> expected_failures = {};  // checks that must flag it
    std::vector<std::string> messages = {};           // by check
    bool is_control() const { return harm == "right"; }
  };
  std::vector<std::string> checks;
  std::vector<Row> rows;
};

/// A trial of a campaign.
struct TrialSummary {
  std::string id;
  std::string command;                   // the line that makes it again
  std::string verdict;                   // empty: it has none
  std::string reason;                    // for the verdict, or why there is none
  std::vector<std::string> failed = {};  // names of checks
  std::int64_t output_tokens = 0;
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
};

struct Report {
  std::string command;  // "verify", "trace check", "zoo", "campaign"
  std::string version;
  std::string subject;  // what was examined: the target, the trace file, ...
  ReportVerdict verdict = ReportVerdict::vacuous;
  std::string reason;  // for the verdict, where it does not follow from the findings
  std::string scope;   // which part of all variations was run; of verify
  std::vector<std::pair<std::string, std::string>> about;  // how it was run: name and value, for readers
  std::vector<std::pair<std::string, double>> examined;    // what was examined, and how much of it
  /// verify: one for each check; a trace: one for each contradiction, then one for each check that passed; zoo: one for
  /// each decoder; a campaign: one for each trial that fails, then one for each check that no trial fails.
  std::vector<Finding> findings;
  std::vector<std::string> unproved;  // what was not examined, because it is missing or was left out
  std::vector<std::string> runs;      // every variation, described
  Spread plain;                       // seconds of decoding without a draft, without the prefill
  std::size_t output_tokens = 0;
  std::vector<DraftReport> drafts;
  std::vector<TokenTest> token_tests;       // none or one
  std::vector<Bets> bets;                   // of a trace
  std::vector<Divergence> divergences;      // none or the first
  std::vector<TextDifference> differences;  // all, ties included; of a comparison of engines
  Matrix matrix;                            // of the zoo; empty otherwise
  std::vector<TrialSummary> trials = {};    // of a campaign
};

std::string report_text(const Report& report);
std::string matrix_text(const Matrix& matrix);  // fixtures/snapshots/mutants.txt
std::string report_json(const Report& report);
std::string report_junit(const Report& report);
/// Returns SARIF 2.1.0 for a trace: a result for each failure, placed in the trace file.
std::string report_sarif(const Report& report);
/// Returns one self-contained page: no script, no font, no picture, no request.
std::string report_html(const Report& report);

}  // namespace draftproof
