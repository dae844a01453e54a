// SPDX-License-Identifier: MIT
// What was found, as data. Text, JSON, JUnit XML, SARIF and one HTML page are made from it and from nothing else;
// docs/report.md is the schema of the JSON.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "oracle/checks/acceptance_statistics.h"
#include "oracle/checks/check.h"

namespace draftproof {

enum class ReportVerdict : std::uint8_t {
  pass_exact,     // everything examined is exactly right
  pass_stat,      // not all could be replayed; it was bet against and nothing was won
  bug_proven,     // two facts cannot both be right
  bug_stat,       // a right decoder says such tokens with probability alpha at most
  undecided,      // something was not said, so it was not examined
  vacuous,        // nothing was put to the test
  invalid_trace,  // the file is no trace
};
const char* name_of(ReportVerdict verdict) noexcept;  // "PASS_EXACT", ...
/// Of findings that prove or leave open: any failure is a bug, else anything vacuous, or a reason, leaves it vacuous.
ReportVerdict verdict_of(const std::vector<Finding>& findings, const std::string& reason);
/// 0 pass, 1 bug, 2 undecided or vacuous, 3 no trace: what the command exits with.
int exit_status(ReportVerdict verdict) noexcept;

struct Spread {  // seconds of several interleaved repeats
  double median = 0;
  double least = 0;
  double most = 0;
};
Spread spread_of(std::vector<double> seconds);

/// Draft tokens at one depth of a block, and how many of them had to stand by their own p and q (oracle/checks/acceptance_statistics.h).
using Depth = Judged;

/// What speculation with one draft did.
struct DraftReport {
  std::string name;
  Statistics statistics;
  double tokens_per_round = 0;
  Fingerprint logits;            // of all rows that the rule asked for
  Spread seconds;                // decoding only, without the prompt
  std::vector<Depth> depths;     // [0]: the first draft token of a round; only draft tokens whose p and q are known
  std::vector<long> accepted;    // [n]: rounds with draft tokens of which n stood
};

/// Tokens held to their law by betting (oracle/sequential/e_process.h).
struct TokenTest {
  long tokens = 0;
  double alpha = 0;
  double slack = 0;
  double e_value = 1;             // the most the wealth has been; infinite after a token p says never
  double smallest_deviation = 1;  // of a law bet on, that would have been seen with probability 0.99; 1: none
  std::string suspect;            // the bet that has most of the wealth
  std::vector<std::pair<long, double>> curve;  // tokens, e-value: at most 512 points, the last is the end
};

/// Other bets on a trace that no right engine wins often: on its coins, its draft tokens, its acceptance.
struct Bets {
  std::string about;
  long observed = 0;      // coins, tokens, ...
  double alpha = 0;
  double e_value = 1;     // the most the wealth has been
  bool alarm = false;
  std::string message;
};

/// Where two texts part, as text where a tokenizer is at hand, else as ids.
struct Divergence {
  std::string run;
  std::int64_t round = -1;
  std::int64_t position = -1;
  std::string before;    // the end of what they share
  std::string plain;     // token and what follows it, plain decoding
  std::string observed;
  std::string draft_tokens;   // of that round
};

/// Wrong decoders, right ones, and what each check says of them.
struct Matrix {
  struct Row {
    std::string id;
    std::string name;
    std::string harm;
    std::string cause;
    bool as_expected = false;
    std::vector<Outcome> outcomes;  // by check
    std::string stage = {};         // of the decoding round, that it breaks
    std::string issue = {};         // upstream, where it was found; empty for our own
    std::vector<std::string> expected_failures = {};  // checks that must flag it
    std::vector<std::string> messages = {};  // by check
    bool is_control() const { return harm == "right"; }
  };
  std::vector<std::string> checks;
  std::vector<Row> rows;
};

struct Report {
  std::string command;  // "verify", "trace check", "zoo"
  std::string version;
  std::string subject;  // what was examined: the target, the trace file, ...
  ReportVerdict verdict = ReportVerdict::vacuous;
  std::string reason;   // of the verdict, where findings do not say it
  std::string scope;    // how much of what there is to vary was varied; of verify
  std::vector<std::pair<std::string, std::string>> about;  // how it was run: name and value, for people
  std::vector<std::pair<std::string, double>> examined;    // what was looked at, and how much of it
  /// verify: one of each check; a trace: one of each thing that cannot be right, then one of each check that held; the
  /// zoo: one of each decoder.
  std::vector<Finding> findings;
  std::vector<std::string> unproved;  // what was not examined: not said, or left out
  std::vector<std::string> runs;      // every variation, described
  Spread plain;                       // seconds of decoding without a draft, without the prompt
  std::size_t output_tokens = 0;
  std::vector<DraftReport> drafts;
  std::vector<TokenTest> token_tests;    // none or one
  std::vector<Bets> bets;             // of a trace
  std::vector<Divergence> divergences;  // none or the first
  Matrix matrix;                      // of the zoo; empty otherwise
};

std::string report_text(const Report& report);
std::string matrix_text(const Matrix& matrix);  // fixtures/snapshots/mutants.txt
std::string report_json(const Report& report);
std::string report_junit(const Report& report);
/// SARIF 2.1.0, of a trace: a result for each failure, placed in the trace file.
std::string report_sarif(const Report& report);
/// One page that needs nothing beside itself: no script, no font, no picture, no request.
std::string report_html(const Report& report);

}  // namespace draftproof
