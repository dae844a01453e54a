// SPDX-License-Identifier: MIT
// Replays every decision of a trace: that positions and tokens hang together, that each draft token was drawn from its q and
// judged as the rule says, that the token after the draft tokens was drawn from what it must be drawn from, that the text
// ended where it had to, that counts reconcile; and, where the target is at hand, that every p is its own. Shares no
// code with the rules and the loop it judges. Holds a line, the text of every open sequence, and caches of the target
// that take no more than those of its longest text.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracle/report/report.h"
#include "oracle/spectrace/events.h"
#include "oracle/spectrace/evidence.h"
#include "ref/models/model.h"

namespace draftproof::spectrace {

/// One thing that cannot be right. `check` is what was checked: position, conservation, draft_draw, acceptance,
/// residual, bonus, own_draw, best, coin, keys, p_row, q_row, law, band, declared, log_probability, token, number,
/// width, kind, draft_length, termination, budget, count, statistics; report.cpp says of each why both cannot be right.
struct Finding {
  const char* check;
  long line = 0;
  std::int64_t sequence = 0;
  std::int64_t round = 0;
  std::int64_t position = 0;
  std::string expected;  // what the plain program says
  std::string observed;  // what the trace says
};

struct Examined {
  long sequences = 0;
  long rounds = 0;
  long tokens = 0;
  long draft_tokens = 0;       // judged
  long accepted = 0;
  long coins = 0;         // that were computed again from the seed
  long draws = 0;         // that were walked through again
  long judged_rounds = 0; // that say what was drafted
  long rows = 0;          // of the target, computed again
  long reals = 0;         // decisions of real numbers by a coin
  long in_band = 0;       // those that rounding could turn
  double band_mass = 0;   // how many of them are to be expected
};

/// Tokens held to their law by betting (oracle/sequential/e_process.h), where p is known.
struct TokenTest {
  static constexpr std::size_t points_max = Curve::points_max;

  long tokens = 0;
  double alpha = 0;
  double slack = 0;
  double e_value = 1;
  bool alarm = false;
  bool of_lossy = false;          // tokens of a rule that is declared lossy: no alarm is a bug
  double smallest_deviation = 1;  // of a law bet on, that would have been seen with probability 0.99; 1: none
  std::string suspect;            // the bet that has most of the wealth
  std::string message;
  std::vector<std::pair<long, double>> curve;  // tokens, e-value: at most points_max, the last is the end
};

/// Greedy tokens of an engine of other numerics, held to the target.
struct GreedyTokens {
  long tokens = 0;
  long not_best = 0;  // of the target
  double gap = 0;     // the largest of these, in logits
  double apart = 0;   // the same in probability, at temperature 1
};

struct Report {
  std::string file;
  std::string engine;
  std::string rule;
  std::string rows;                // name of the file of rows; empty when there is none
  std::string invalid;             // why the file is no trace, with line and field; the rest ends there
  std::vector<Finding> findings;   // at most findings_max: there the replay ends
  std::map<std::string_view, long> looked;  // how often each check was made
  std::set<std::string> missing;    // of decisions, so that they could not be replayed; the tokens' law stands in for it
  std::set<std::string> unproved;  // what nothing stands in for
  std::set<std::string> unread;    // fields that were there and could not be looked at; no verdict hangs on them
  std::set<std::string> assumed;   // what is not said, and was taken for granted
  bool lossy = false;              // by a rule that promises no law
  std::optional<TokenTest> token_test;  // none where no p is known
  std::vector<Game> games;         // other bets, on coins, draft tokens, acceptance
  GreedyTokens greedy;
  double slack = 0;                // as granted
  std::optional<double> furthest_row;      // of P from the target's, in total variation, where they are held by slack
  std::optional<double> furthest_logprob;  // the same of one probability
  std::vector<Depth> depths;       // [0]: the first draft token of a round; only draft tokens whose rows of p and q are known
  std::vector<long> accepted;         // [n]: rounds with draft tokens of which n stood
  bool target_given = false;       // else p is as the trace states it
  Examined examined;

  static constexpr std::size_t findings_max = 100;
  ReportVerdict verdict() const;
};

/// The target by itself; none when the vocabulary is 0.
struct Target {
  int vocabulary = 0;
  /// In the class of equal bits that a sequence was computed in; nullptr where it cannot be had in that class here:
  /// then the p of the sequence are not held to it.
  std::function<std::shared_ptr<Model>(const std::string& numerics)> computing_in;
  /// With slack the tokens of such a sequence are, by betting: as from laws that lie at most so far from the target's
  /// own at every position, in total variation. In whatever class is at hand.
  double slack = 0;
  /// Greedy tokens of such a sequence may lie so far below the target's best, in logits, or within 2 slack of it in
  /// probability at temperature 1.
  double tie = 0;
  std::function<std::shared_ptr<Model>()> computing_anyhow = {};
  /// "sha256:..." of its files; asked where a trace names its own so. Empty: not known.
  std::function<std::string()> weights = {};
};

Report replay(const std::string& file, const Target& target = {});

/// Whether a replay makes findings of this name.
bool is_check(std::string_view name) noexcept;

/// As a report like any other, but for the version.
draftproof::Report report_of(const Report& report);

}  // namespace draftproof::spectrace
