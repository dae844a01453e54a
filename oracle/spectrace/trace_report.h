// SPDX-License-Identifier: MIT
// What the replay of a trace has found, as data, and its verdict.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracle/report/report.h"
#include "oracle/spectrace/games.h"

namespace draftproof::spectrace {

/// Where a replay stands: the line of the file, and what it decides of which text.
struct TracePlace {
  long line = 0;
  std::int64_t sequence = 0;
  std::int64_t round = 0;
  std::int64_t position = 0;  // of the first token that the line decides
};

/// A contradiction. `check` names what was checked: position, conservation, draft_draw, acceptance, residual, bonus,
/// own_draw, best, coin, keys, p_row, q_row, distribution, band, declared, log_probability, token, number, width, kind,
/// draft_length, target_held, termination, budget, count, statistics; about the speed only draft_held, draft_anchor,
/// draft_asked. trace_report.cpp explains each.
struct TraceFinding {
  const char* check;
  TracePlace place;
  std::string expected;  // by plain autoregressive decoding and the rule
  std::string observed;  // in the trace
};

struct Examined {
  long sequences = 0;
  long rounds = 0;
  long tokens = 0;
  long draft_tokens = 0;  // verified
  long accepted = 0;
  long coins = 0;               // computed again from the seed
  long draws = 0;               // replayed
  long shifts = 0;              // of contexts
  long rounds_with_drafts = 0;  // rounds that state their draft tokens
  long rows = 0;                // of the target, computed again
  long reals = 0;               // decisions of real numbers by a coin
  long in_band = 0;             // those within rounding
  double band_mass = 0;         // expected number of decisions within rounding
};

/// Bets on the tokens whose p is known (oracle/sequential/e_process.h).
struct TraceTokenTest {
  static constexpr std::size_t points_max = EvidenceCurve::points_max;

  long tokens = 0;
  double alpha = 0;
  double slack = 0;
  double e_value = 1;
  bool alarm = false;
  bool of_lossy = false;          // tokens of a rule that is declared lossy: an alarm is no bug
  double smallest_deviation = 1;  // among those bet on, that would have been seen with probability 0.99; 1: none
  std::string suspect;            // the bet with most of the wealth
  std::string message;
  std::vector<std::pair<long, double>> curve;  // tokens, e-value: at most points_max, the last is the end
};

/// Greedy tokens of an engine of other numerics, compared with the target.
struct GreedyTokens {
  long tokens = 0;
  long not_best = 0;  // not the target's best token
  double gap = 0;     // the largest of these below the best token, in logits
  double apart = 0;   // the same in probability, at temperature 1
  long line = 0;      // of the token with the largest gap
  std::int64_t position = 0;
  double open = 0;  // the largest gap that neither a flag nor a finding settles
};

/// How far rows of the reference, which computes in floats, lie from those of the float64 twin.
struct DistanceFromExact {
  long rows = 0;         // compared
  double logit = 0;      // the largest difference of one logit
  double variation = 0;  // the largest total variation, at the temperature of the sequence and before any cut
  std::string unknown;   // why none was compared, a sentence; empty: it was, or there was nothing to compare
};

struct TraceReport {
  std::string file;
  std::string engine;
  std::string rule;
  std::string rows;                         // name of the file of rows; empty when there is none
  std::string invalid;                      // why the file is no trace, with line and field; the replay ends there
  std::vector<TraceFinding> findings;       // at most findings_max, where the replay ends
  std::vector<TraceFinding> slower;         // the first of each kind in a sequence, at most slower_max: cost speed only
  std::map<std::string_view, long> looked;  // how often each check was made
  std::set<std::string> missing;            // about decisions that could not be replayed; bets on the tokens replace it
  std::set<std::string> unproved;           // what nothing replaces
  std::set<std::string> unread;   // fields that are present and could not be checked; no verdict depends on them
  std::set<std::string> assumed;  // what the trace does not state and the replay assumed
  bool lossy = false;             // a rule that does not promise the target's distribution
  std::string advice;             // which flag would settle what is undecided; empty: none would
  std::optional<TraceTokenTest> token_test;  // empty where no p is known
  std::vector<Game> games;                   // other bets, on coins, draft tokens, acceptance
  GreedyTokens greedy;
  std::string reference;               // numerics class that sequences of other numerics were compared with, or empty
  double slack = 0;                    // as granted
  std::optional<double> furthest_row;  // stated row from the target's, in total variation, under slack
  std::optional<double> furthest_logprob;  // the same of one probability
  std::vector<Depth> depths;               // [0]: first draft tokens; only those whose rows of p and q are known
  std::vector<long> accepted;              // [n]: rounds with draft tokens of which n were accepted
  bool target_given = false;               // else p is taken as the trace states it
  Examined examined;
  DistanceFromExact from_exact;
  double tie = 0;           // as granted
  std::string slack_basis;  // what was measured to grant the slack and the tie; empty: they were given
  std::string tie_basis;

  static constexpr std::size_t findings_max = 100;
  static constexpr std::size_t slower_max = 20;
  ReportVerdict verdict() const;
};

/// Returns whether a replay has a check of this name.
bool is_check(std::string_view name) noexcept;

/// Converts to the report that every command writes; the version is left empty.
Report make_report(const TraceReport& report);

}  // namespace draftproof::spectrace
