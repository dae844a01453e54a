// SPDX-License-Identifier: MIT
#include "oracle/spectrace/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "kernels/math64.h"
#include "ref/base/require.h"

namespace draftproof::spectrace {
namespace {

/// For each check of a replay: what holds in a right engine, which parts a failure blames, and which it clears.
struct CheckMeaning {
  const char* check;
  const char* holds;
  const char* blames;
  const char* clears;
};

constexpr CheckMeaning meanings[] = {
    {"position", "a round begins where the text of the rounds before it ends",
     "what the engine keeps of a round, its position counter, the order in which the emitter writes rounds",
     "the rule and random numbers: no probability is involved"},
    {"conservation", "a round emits the accepted draft tokens and the token after them, and nothing else",
     "what the engine emits and keeps of a round", "p, q and the coins, which are taken as stated"},
    {"draft_draw", "the coin of a draft token lies in the interval its token has in q",
     "the draft's draw, the stated q", "the target and its rows"},
    {"acceptance",
     "a draft token is accepted or rejected by p, q and its coin, or by the target's own draw, and by nothing else",
     "the acceptance test, the p and q it reads",
     "the model, as long as p_row finds nothing; how good the draft tokens are"},
    {"residual", "after a rejection the next token is drawn from max(p - q, 0)",
     "the replacement of a rejected draft token: its weights, their sum, the draw from them",
     "the acceptance test, and the model as long as p_row finds nothing"},
    {"bonus", "when all draft tokens are accepted the bonus token is drawn from the target's next row",
     "the row or the draw of the bonus token", "acceptance and replacement"},
    {"own_draw", "a rejected draft token is replaced by the target's own draw, or its best token",
     "the target's draw, the row it is made from", "the draft and its q"},
    {"best", "greedy decoding emits the best token of a row",
     "the search for the best token, the order of ties, tokens that were lost, doubled or moved before they were "
     "emitted, other weights than the target's",
     "random numbers: none is involved"},
    {"coin", "a coin follows from seed, sequence, position and purpose alone",
     "keys of random numbers, the generator, a second stream", "model, p, q and the rule"},
    {"keys", "the keys of a round are those of the coins it states",
     "the record of keys, a coin that is drawn and not stated", "model, p and q"},
    {"p_row", "p follows from the text before it, the model and the sampling parameters",
     "the verification pass over several rows, KV caches, sampling parameters on verification rows, the stated p",
     "the rule, the draft and the coins: rows are computed after the trace's own text"},
    {"q_row", "the weights of one q agree with each other wherever they are stated",
     "the stated q, the buffer it is read from", "the target"},
    {"distribution", "an emitted token has weight in its p",
     "whatever emits the token: the row it is drawn from, sampling parameters, the loop",
     "randomness: it is not involved"},
    {"declared",
     "a row agrees with what its sequence declares: one token at temperature 0, at most k under top-k, its likeliest "
     "in top_logits and as much likelier as these say",
     "sampling parameters on verification rows, the declaration, the stated row",
     "randomness and the draft: no coin is involved"},
    {"log_probability", "a log-probability is that of its token in the row",
     "what users receive: the row it is read from, its sampling parameters",
     "the text: no token is drawn from reported log-probabilities"},
    {"token", "every token is in the vocabulary", "what makes the token: the draft's output, padding that is verified",
     "p, q and the coins"},
    {"number", "probabilities lie in [0, 1] and coins in [0, 1)",
     "the softmax of a row without finite logits, uninitialized memory, a generator that returns 1",
     "the emitter: it wrote the value that it received"},
    {"band", "no more decisions lie within rounding than rounding makes likely",
     "an acceptance test or a draw that is slightly off, weights of another dtype than stated",
     "single decisions: rounding could turn each of them"},
    {"width",
     "a batched verification reads one row more than there are draft tokens, a serial one reads one row more than are "
     "accepted",
     "the count of rows, a second pass", "p, q and the coins"},
    {"kind", "where the next token comes from follows from how many draft tokens are accepted",
     "the choice between replacement and bonus token, the label", "p, q and the coins"},
    {"draft_length", "no round holds more draft tokens than requested", "the draft's length, the loop's limit on it",
     "p, q and the coins"},
    {"target_held", "the target's cache holds the text before the anchor, less what context shifts dropped",
     "the target's KV cache: what a rollback leaves, what a commit keeps", "p, q and the coins"},
    {"state", "after a round the target's cache is that of a run that read only the text, bit for bit",
     "the target's cache: rows of rejected draft tokens, a branch in another's place, a recurrent state", "the coins"},
    {"reused", "a kept cache is reused no further than its text and the prompt agree, and not for the whole prompt",
     "the length that a kept cache is cut to: rejected draft tokens in it, a later edit of the text",
     "p, q and the coins"},
    {"allowed", "every token is one of those that may follow, and a grammar allows these",
     "the mask: that of another row or one row late, the state of a grammar after a rejection", "the coins"},
    {"draft_held", "a draft holds, read or unread, what the target's cache holds",
     "the draft's own state: rows that it lost or has twice after a partial acceptance, rows of an earlier text",
     "the text: no draft token becomes output that the target does not accept"},
    {"draft_anchor", "a draft places the anchor behind the last position that it holds",
     "the position from which the draft proposes",
     "the text: no draft token becomes output that the target does not accept"},
    {"draft_asked", "a tuner asks a draft for as many draft tokens as its costs and the rounds so far make best",
     "what the tuner has learned, costs that changed within a sequence, the limit it is given",
     "the text: no draft token becomes output that the target does not accept"},
    {"termination", "a text ends with its first stop token, with its budget, cancelled, or for a reason that is named",
     "the search for stop tokens, the loop's end", "p, q and the coins"},
    {"budget", "no more tokens are emitted than requested", "the loop's cut of the last round", "p, q and the coins"},
    {"count", "the count of tokens is that of the emitted tokens", "the counter", "the text"},
    {"statistics", "every count can be counted again from the rounds", "the counters", "the text"},
};

/// Returns nullptr when there is no such check.
const CheckMeaning* find_meaning(std::string_view check) noexcept {
  const auto found = std::find_if(std::begin(meanings), std::end(meanings),
                                  [&](const CheckMeaning& meaning) { return check == meaning.check; });
  return found == std::end(meanings) ? nullptr : found;
}

const CheckMeaning& meaning_of(std::string_view check) {
  const CheckMeaning* const found = find_meaning(check);
  REQUIRE(found != nullptr, "every check of a replay has a meaning");
  return *found;
}

/// Returns what holds in a right engine. Without a model nothing is known of p but what the trace states.
std::string held_by(const TraceReport& r, std::string_view check) {
  if (check == "p_row" && !r.target_given) return "p is the same wherever it is stated";
  return meaning_of(check).holds;
}

Finding make_finding(const TraceReport& r, const TraceFinding& found, Outcome outcome) {
  const CheckMeaning& meaning = meaning_of(found.check);
  Finding finding{.check = found.check, .outcome = outcome, .examined = 1, .message = {}};
  finding.failure = Failure{.run = "sequence " + std::to_string(found.place.sequence),
                            .line = found.place.line,
                            .round = found.place.round,
                            .position = found.place.position,
                            .expected = found.expected,
                            .observed = found.observed,
                            .facts = {held_by(r, found.check)},
                            .blames = meaning.blames,
                            .clears = meaning.clears};
  finding.message = message_of(*finding.failure);
  return finding;
}

std::string lines_of(const std::vector<const TraceFinding*>& findings) {
  constexpr std::size_t shown = 8;
  std::string lines;
  for (std::size_t i = 0; i < std::min(findings.size(), shown); ++i) {
    lines += (i == 0 ? "" : ", ") + std::to_string(findings[i]->place.line);
  }
  return (findings.size() == 1 ? "line " : "lines ") + lines + (findings.size() > shown ? ", ..." : "");
}

/// Appends the first finding of each check, with the lines of the others.
void add_findings(const TraceReport& r, const std::vector<TraceFinding>& all, Outcome outcome,
                  std::vector<Finding>& shown) {
  for (const TraceFinding& finding : all) {
    const auto same = [&](const auto& other) { return other.check == std::string_view(finding.check); };
    if (std::any_of(shown.begin(), shown.end(), same)) continue;
    std::vector<const TraceFinding*> others;
    for (const TraceFinding& other : all) {
      if (&other != &finding && same(other)) others.push_back(&other);
    }
    shown.push_back(make_finding(r, finding, outcome));
    if (others.empty()) continue;
    shown.back().examined = static_cast<long>(others.size()) + 1;
    shown.back().failure->facts.push_back(std::to_string(others.size()) + " more of this kind, in " + lines_of(others));
  }
}

void add_examined(const TraceReport& r, Report& report) {
  const Examined& e = r.examined;
  const auto count = [&](const char* name, auto value) { report.examined.emplace_back(name, value); };
  count("sequences", e.sequences);
  count("rounds", e.rounds);
  if (e.shifts > 0) count("context_shifts", e.shifts);
  count("tokens", e.tokens);
  count("draft_tokens", e.draft_tokens);
  count("accepted", e.accepted);
  count("draws", e.draws);
  count("coins", e.coins);
  count("rows", e.rows);
  count("reals", e.reals);
  count("in_band", e.in_band);
  count("band_mass", e.band_mass);
}

void add_passed_checks(const TraceReport& r, Report& report) {
  for (const auto& [check, times] : r.looked) {
    const auto fails = [&](const TraceFinding& finding) { return check == finding.check; };
    if (std::ranges::any_of(r.findings, fails) || std::ranges::any_of(r.slower, fails)) continue;
    report.findings.push_back(
        {.check = std::string(check),
         .outcome = Outcome::pass,
         .examined = times,
         .message = held_by(r, check) + ": " + std::to_string(times) + (times == 1 ? " case" : " cases")});
  }
}

void add_unproved(const TraceReport& r, Report& report) {
  for (const auto* const list : {&r.missing, &r.unproved, &r.unread}) {
    report.unproved.insert(report.unproved.end(), list->begin(), list->end());
  }
  for (const std::string& assumption : r.assumed) report.unproved.push_back("it is assumed that " + assumption);
  if (!r.target_given) {
    report.unproved.emplace_back("p is as the trace states it; give --target to hold it to the model");
  }
}

/// Appends the bets, and to the reason those that raise an alarm.
void add_bets(const TraceReport& r, Report& report) {
  if (r.token_test) {
    const TraceTokenTest& test = *r.token_test;
    report.token_tests.push_back(
        {test.tokens, test.alpha, test.slack, test.e_value, test.smallest_deviation, test.suspect, test.curve});
    if (test.alarm && report.verdict == ReportVerdict::bug_stat) report.reason = test.message;
  }
  const auto add_reason = [&](const std::string& reason) {
    report.reason += (report.reason.empty() ? "" : "; ") + reason;
  };
  for (const Game& game : r.games) {
    report.bets.push_back({game.name, game.observed, Games::alpha_of_one, game.e_value, game.alarm, game.message});
    if (game.alarm && report.verdict == ReportVerdict::bug_stat) add_reason(game.name + ": " + game.message);
  }
  const bool bug = report.verdict == ReportVerdict::bug_stat || report.verdict == ReportVerdict::bug_proven;
  for (const std::string& assumption : r.assumed) {
    if (bug) add_reason("assuming that " + assumption);
  }
}

constexpr double suspicious = 1e3;  // e-value: a right engine reaches it in one trace of a thousand

/// Appends to the reason of a verdict that accuses nobody the bets that come near an alarm, and how much would decide.
void add_suspicions(const TraceReport& r, Report& report) {
  if (report.verdict != ReportVerdict::pass_stat && report.verdict != ReportVerdict::undecided) return;
  const auto add = [&](const std::string& bet, long observed, double e_value) {
    if (e_value < suspicious) return;
    const double rate = log64(e_value) / static_cast<double>(observed);
    report.reason += fmt::format(
        "{}suspicious: a right engine reaches the e-value {:.3g} of the bets on {} with probability {:.2g} at most; at "
        "this rate {:.0f} more decide",
        report.reason.empty() ? "" : "; ", e_value, bet, 1 / e_value,
        std::ceil(-log64(Games::alpha_of_one * e_value) / rate));
  };
  if (r.token_test && !r.token_test->of_lossy) add("tokens", r.token_test->tokens, r.token_test->e_value);
  for (const Game& game : r.games) add(game.name, game.observed, game.e_value);
}

void add_draft(const TraceReport& r, Report& report) {
  if (r.depths.empty() && r.accepted.empty()) return;
  const Examined& e = r.examined;
  DraftReport draft;
  draft.name = "of the trace";
  draft.statistics.rounds = static_cast<int>(e.rounds);
  draft.statistics.iterations = static_cast<int>(std::accumulate(r.accepted.begin(), r.accepted.end(), 0L));
  draft.statistics.drafted = static_cast<int>(e.draft_tokens);  // those that were verified
  draft.statistics.accepted = static_cast<int>(e.accepted);
  draft.tokens_per_round = e.rounds == 0 ? 0 : static_cast<double>(e.tokens) / static_cast<double>(e.rounds);
  draft.depths = r.depths;
  draft.accepted = r.accepted;
  report.drafts.push_back(std::move(draft));
  report.output_tokens = static_cast<std::size_t>(e.tokens);
}

void add_distances(const TraceReport& r, Report& report) {
  const auto about = [&](const char* name, const std::string& value) { report.about.emplace_back(name, value); };
  if (r.greedy.tokens > 0) {
    const std::string furthest = r.greedy.not_best == 0
                                     ? ""
                                     : fmt::format(
                                           "; the furthest lies {:.4g} below it in logits, {:.4g} in probability, at "
                                           "position {} (line {})",
                                           r.greedy.gap, r.greedy.apart, r.greedy.position, r.greedy.line);
    about("greedy tokens",
          fmt::format("{} of {} are not the target's best{}", r.greedy.not_best, r.greedy.tokens, furthest));
  }
  const DistanceFromExact& exact = r.from_exact;
  if (exact.rows > 0) {
    about("reference's distance from exact",
          fmt::format("at most {:.2g} in a logit, {:.2g} in total variation, in {} rows", exact.logit, exact.variation,
                      exact.rows));
  } else if (!exact.unknown.empty()) {
    about("reference's distance from exact", "not measured: " + exact.unknown);
  }
  if (r.furthest_row) {
    about("furthest row from the target's", fmt::format("{:.4g} in total variation", *r.furthest_row));
  }
  if (r.furthest_logprob) {
    about("furthest log-probability", fmt::format("{:.4g} apart in probability", *r.furthest_logprob));
  }
}

}  // namespace

ReportVerdict TraceReport::verdict() const {
  if (!invalid.empty()) return ReportVerdict::invalid_trace;
  if (!findings.empty()) return ReportVerdict::bug_proven;
  if (examined.rounds == 0) return ReportVerdict::vacuous;
  const bool alarm = std::any_of(games.begin(), games.end(), [](const Game& game) { return game.alarm; });
  if (alarm || (token_test && token_test->alarm && !token_test->of_lossy)) return ReportVerdict::bug_stat;
  if (!slower.empty()) return ReportVerdict::perf_regression;
  if (!unproved.empty()) return ReportVerdict::undecided;
  if (!missing.empty()) return ReportVerdict::pass_stat;
  // Tokens that each equal plain decoding's are a proof, whatever was drafted.
  const bool nothing_verified = examined.draft_tokens == 0 && examined.rounds_with_drafts > 0;
  if (nothing_verified) return ReportVerdict::vacuous;
  return target_given ? ReportVerdict::pass_exact : ReportVerdict::pass_stat;
}

bool is_check(std::string_view name) noexcept { return find_meaning(name) != nullptr; }

Report make_report(const TraceReport& r) {
  Report report;
  report.command = "trace check";
  report.subject = r.file;
  report.verdict = r.verdict();
  report.reason = r.invalid;
  if (!r.invalid.empty()) return report;
  if (r.findings.size() == TraceReport::findings_max) {
    report.reason = "the replay ended after " + std::to_string(TraceReport::findings_max) + " findings";
  } else if (report.verdict == ReportVerdict::vacuous) {
    report.reason = r.examined.rounds == 0 ? "there is no round in the trace" : "no draft token was verified";
  } else if (report.verdict == ReportVerdict::undecided) {
    report.reason = r.advice;
  }
  report.about = {{"engine", r.engine}, {"rule", r.rule}};
  if (!r.reference.empty()) report.about.emplace_back("reference", r.reference);
  if (!r.slack_basis.empty()) {
    report.about.emplace_back("slack granted", fmt::format("{:.2g}: {}", r.slack, r.slack_basis));
  }
  if (!r.tie_basis.empty()) report.about.emplace_back("tie granted", fmt::format("{:.2g}: {}", r.tie, r.tie_basis));
  add_examined(r, report);
  add_findings(r, r.findings, Outcome::fail, report.findings);
  add_findings(r, r.slower, Outcome::perf_regression, report.findings);
  add_passed_checks(r, report);
  add_unproved(r, report);
  add_bets(r, report);
  add_suspicions(r, report);
  add_draft(r, report);
  add_distances(r, report);
  return report;
}

}  // namespace draftproof::spectrace
