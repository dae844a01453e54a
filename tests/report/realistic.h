// SPDX-License-Identifier: MIT
// Reports as the commands make them, and reports as nobody would wish them.
#pragma once

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "oracle/report/report.h"

namespace draftproof::test {

inline Finding make_finding(const char* check, Outcome outcome, long examined, std::string message) {
  return {check, outcome, examined, std::move(message), {}};
}

/// Depths with acceptance probabilities 4/5, then 3/4, ..., accepted a little more or less often than expected.
inline DraftReport draft_of(std::string name, int depths, long rounds) {
  DraftReport draft;
  draft.name = std::move(name);
  draft.accepted.resize(static_cast<std::size_t>(depths) + 1);
  long alive = rounds;
  for (int i = 0; i < depths; ++i) {
    Depth depth;
    depth.judged = alive;
    const double share = 0.85 - 0.3 * i / depths;
    depth.expected = share * static_cast<double>(alive);
    depth.accepted =
        std::min(alive, static_cast<long>(depth.expected + (i % 2 == 0 ? 0.6 : -0.4) * (alive > 9 ? 3 : 1)));
    draft.depths.push_back(depth);
    draft.accepted[i] = depth.judged - depth.accepted;
    alive = depth.accepted;
    draft.statistics.accepted += static_cast<int>(depth.accepted);
  }
  draft.accepted.back() = alive;
  draft.statistics.iterations = static_cast<int>(rounds);
  draft.statistics.drafted = static_cast<int>(rounds * depths);
  draft.tokens_per_round = 1 + draft.statistics.average_accepted();
  draft.seconds = {0.0312, 0.0309, 0.0334};
  return draft;
}

/// A bet that wins `factor` with every token, looked at 512 times.
inline TokenTest compute_distribution(long tokens, double exponent_at_end) {
  TokenTest token_test;
  token_test.tokens = tokens;
  token_test.alpha = 1e-9;
  token_test.smallest_deviation = 0.031;
  token_test.suspect = "temperature ignored, always";
  for (int i = 1; i <= 512; ++i) {
    const long at = tokens * i / 512;
    const double exponent = exponent_at_end * i / 512 - (i % 7) * 0.05 + (i % 31) * 0.02;
    double value = 1;
    for (int k = 0; k < static_cast<int>(exponent * 100); ++k) value *= 1.023293;  // 10^(1/100)
    for (int k = 0; k > static_cast<int>(exponent * 100); --k) value /= 1.023293;
    if (!token_test.curve.empty() && token_test.curve.back().first == at) continue;
    token_test.curve.emplace_back(at, value);
    token_test.e_value = std::max(token_test.e_value, value);
  }
  return token_test;
}

/// The matrix of fixtures/snapshots/mutants.txt.
inline Matrix matrix_of(const std::string& snapshot) {
  std::ifstream file(snapshot);
  Matrix matrix;
  std::string line;
  std::getline(file, line);
  std::getline(file, line);
  std::istringstream head(line);
  std::string word;
  head >> word;  // "harm"
  const std::size_t harm_at = line.find(word);
  while (head >> word) matrix.checks.push_back(word);
  while (std::getline(file, line) && !line.empty()) {
    Matrix::Row row;
    row.id = line.substr(0, line.find(' '));
    row.name = line.substr(6, harm_at - 6);
    row.name.erase(row.name.find_last_not_of(' ') + 1);
    row.as_expected = true;
    std::istringstream cells(line.substr(harm_at));
    cells >> row.harm;
    while (cells >> word) {
      row.outcomes.push_back(word == "X"   ? Outcome::fail
                             : word == "p" ? Outcome::perf_regression
                             : word == "." ? Outcome::pass
                                           : Outcome::vacuous);
      if (word == "X" || word == "p") row.expected_failures.push_back(matrix.checks[row.outcomes.size() - 1]);
    }
    matrix.rows.push_back(row);
  }
  std::getline(file, line);
  for (Matrix::Row& row : matrix.rows) {
    std::getline(file, line);
    row.stage = line.substr(6, 2);
    row.issue = line.substr(10, line.find("  ", 10) - 10);
    row.cause = line.substr(48);
  }
  return matrix;
}

inline Report verified() {
  Report r;
  r.command = "verify";
  r.version = "0.1.0";
  r.subject = "fixtures/models/tale-target";
  r.verdict = ReportVerdict::pass_exact;
  r.about = {{"rule", "rejection"},
             {"sampling", "temperature 0.8, top-k 40, top-p 0.95"},
             {"seed", "7"},
             {"prompt", "12 tokens"},
             {"new tokens", "192"},
             {"kernels", "avx512_vnni"},
             {"numerics", "canonical"},
             {"threads", "2"}};
  r.findings = {
      make_finding("tokens_equal", Outcome::pass, 11328, "59 runs, 11 328 tokens, all as in plain decoding"),
      make_finding("logits_equal", Outcome::pass, 15342, "15 342 rows, every bit as plain decoding computes it"),
      make_finding("acceptance_correct", Outcome::pass, 7211,
                   "every draft token is accepted or rejected as p, q and coin require"),
      make_finding("cache_rollback", Outcome::pass, 2140,
                   "after every round the caches hold what reading the text leaves"),
      make_finding("log_probabilities", Outcome::vacuous, 0, "no log-probability was asked for"),
      make_finding("rng_accounting", Outcome::pass, 33102, "no random answer was used twice"),
      make_finding("distribution_exact", Outcome::pass, 1944,
                   "every random draw enumerated: the distribution is exactly p")};
  r.runs = {
      "dflash, rejection, avx512_vnni, 1 thread, batched",  "dflash, rejection, avx512_vnni, 1 thread, serial",
      "dflash, rejection, avx512_vnni, 2 threads, batched", "dflash, rejection, scalar, 1 thread, batched",
      "none, rejection, avx512_vnni, 1 thread, batched",    "always-reject, rejection, avx512_vnni, 1 thread, serial",
      "perfect, rejection, avx512_vnni, 1 thread, batched"};
  r.plain = {0.1043, 0.1031, 0.1102};
  r.output_tokens = 192;
  r.drafts = {draft_of("dflash:fixtures/models/tale-dflash", 7, 342),
              draft_of("model:fixtures/models/tale-small", 4, 812)};
  r.drafts[1].seconds = {0.0577, 0.0571, 0.0602};
  return r;
}

inline Report failed() {
  Report r = verified();
  r.verdict = ReportVerdict::bug_proven;
  Finding& tokens = r.findings[0];
  tokens.outcome = Outcome::fail;
  tokens.message = "dflash, batched, 2 threads: the text parts from plain decoding at position 37";
  tokens.failure = Failure{"dflash, rejection, avx512_vnni, 2 threads, batched",
                           0,
                           9,
                           37,
                           "token 412, \" river\"",
                           "token 98, \" rivers\"",
                           {"Plain decoding draws at position 37 with the coin 0x1.8p-3 from the row whose digest is "
                            "4f2c91d07be85c33.",
                            "The run drew with the same coin from a row whose digest is 91aa03c4e6f07d15.",
                            "Both rows follow the same 37 tokens, so they must be one and the same."},
                           "the target's rows of a batch: positions, masks, the cache after a rejection",
                           "randomness, the rule, the draft: rows are the target's alone",
                           "draftproof reproduce out/tokens_equal-1"};
  Finding& draws = r.findings[5];
  draws.outcome = Outcome::fail;
  draws.message = "the number at (seed 7, sequence 0, position 37, accept, 2) was used twice";
  draws.failure = Failure{"dflash, rejection, scalar, 1 thread, batched",
                          0,
                          9,
                          -1,
                          "",
                          "",
                          {"It was used for draft token 2 of round 9.", "It was used for the residual of round 9."},
                          "keys of random draws",
                          "",
                          ""};
  r.divergences = {{"dflash, rejection, avx512_vnni, 2 threads, batched", 9, 37,
                    "Once upon a time there was a miller's daughter who lived by the", " river. \nEvery morning she",
                    " rivers  and\twent", " rivers and the"}};
  r.unproved = {"q of 14 draft tokens was not recorded, so their acceptance was not examined"};
  return r;
}

inline Report checked_trace() {
  Report r;
  r.command = "trace check";
  r.version = "0.1.0";
  r.subject = "run-2026-11-22.jsonl";
  r.verdict = ReportVerdict::pass_stat;
  r.about = {{"producer", "somebody's engine 3.1"}, {"richness", "T3"}, {"sequences", "64"}, {"rounds", "100 000"}};
  r.findings = {make_finding("positions", Outcome::pass, 100000, "every round begins where the one before it ended")};
  r.token_tests = {compute_distribution(412337, 2.4)};
  r.token_tests[0].slack = 1e-4;
  r.drafts = {draft_of("eagle", 32, 100000)};
  r.drafts[0].seconds = {};
  return r;
}

inline Report examined_zoo(const std::string& snapshot) {
  Report r;
  r.command = "zoo";
  r.version = "0.1.0";
  r.subject = "94 decoders";
  r.verdict = ReportVerdict::pass_exact;
  r.matrix = matrix_of(snapshot);
  return r;
}

}  // namespace draftproof::test
