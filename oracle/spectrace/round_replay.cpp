// SPDX-License-Identifier: MIT
#include "oracle/spectrace/round_replay.h"

#include <algorithm>
#include <span>

#include "oracle/checks/acceptance_statistics.h"
#include "oracle/spectrace/block_decisions.h"
#include "oracle/spectrace/draft_draws.h"
#include "oracle/spectrace/logprobs.h"
#include "oracle/spectrace/row_decisions.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

/// Checks that `next` may follow the text with these tokens behind it: where a grammar lets nothing follow, some
/// engines end the text, and others emit a stop token.
void expect_open(const ReplayedRound& r, std::span<const Token> more, Token next) {
  if (!r.rows.has_target(r.round.sequence) || r.sequence.declared.grammar.empty()) return;
  r.findings.expect(
      !r.rows.complete(r.sequence, more) || r.sequence.stops_at(next), "termination",
      [] { return std::string("the text ends where the grammar lets nothing follow"); },
      [] { return std::string("more tokens"); });
}

/// Checks that the round comes where the text before it ends, and that this text goes on.
void expect_next(const ReplayedRound& r) {
  r.findings.expect_equal("position", "the next position to decide is", r.position_of(0), r.round.position);
  r.findings.expect(
      !r.sequence.stopped(), "termination", [&] { return "the text ended with a stop token"; },
      [] { return std::string("another round"); });
  if (!r.round.emitted.empty()) expect_open(r, {}, r.round.emitted.front());
  r.sequence.draft.expect_held(r.round, r.sequence.dropped, r.findings);
  r.sequence.draft.expect_asked(r.round, r.sequence.emitted(), r.findings);
}

/// Reports values that no right engine states. The rest of that round, and every later row of the target, means
/// nothing.
void report_faults(const ReplayedRound& r) {
  for (const ImpossibleValue& fault : r.round.faults) {
    r.findings.expect(
        false, fault.check,
        [&] {
          return fault.field + (fault.check == std::string_view("token") ? " is a token of the vocabulary"
                                                                         : " is a number in its range");
        },
        [&] { return printable(fault.observed); });
  }
  r.sequence.all_have_draft_tokens = false;
  r.rows.leave(r.round.sequence);
}

/// Replays a round without draft tokens: checks what the target alone decides.
void replay_tokens(const ReplayedRound& r) {
  OpenSequence& sequence = r.sequence;
  sequence.all_have_draft_tokens = false;
  sequence.rejected_unknown = sequence.declared.max_draft_tokens != 0;
  for (std::size_t i = 0; i < r.round.emitted.size(); ++i) {
    const Token token = r.round.emitted[i];
    const std::int64_t position = r.position_of(i);
    const KnownRow row = r.rows.after(sequence, r.round, i, r.findings);
    if (const auto own = row.p ? r.coins.token_of(*row.p, sequence, position) : std::nullopt) {
      ++r.report.examined.draws;
      r.findings.expect_equal("own_draw", "at position " + number(position) + " plain decoding emits", *own, token);
    } else {
      r.report.missing.insert("rounds without draft_tokens do not state what was drafted and how it was verified");
    }
    hold_logprobs(r, i, row);
    r.evidence.bet_on_token(sequence, r.round, i, row, {}, r.findings);
    r.evidence.forfeit_all(sequence, position, 1, r.findings.place());
    sequence.text.push_back(token);
  }
  sequence.text.resize(static_cast<std::size_t>(r.position_of(0)));
}

/// `block` reads rows behind those it accepts: of our variant the stated ones, of another as many as it likes.
void expect_width(const ReplayedRound& r, Verification verification) {
  const auto drafted = static_cast<std::int64_t>(r.round.draft_tokens.size());
  const std::int64_t min = r.round.accepted + std::int64_t{1};
  const std::int64_t width = *r.round.width;
  const bool blocks = r.rule() == AcceptanceRule::block;
  const bool ours = r.sequence.declared.rule.variant == our_block && !r.round.p_rows.empty();
  if (blocks && verification == Verification::serial && !ours) {
    r.findings.expect(
        width >= min && width <= drafted + 1, "width",
        [&] { return "rows of the verification pass are " + number(min) + " to " + number(drafted + 1); },
        [&] { return number(width); });
    return;
  }
  const std::int64_t read = blocks ? static_cast<std::int64_t>(r.round.p_rows.size()) : min;
  r.findings.expect_equal("width", "rows of the verification pass are",
                          verification == Verification::serial ? read : drafted + 1, width);
}

/// Checks where the next token comes from, the width of the pass and the number of draft tokens.
void expect_shape(const ReplayedRound& r) {
  const auto drafted = static_cast<std::int64_t>(r.round.draft_tokens.size());
  const int accepted = r.round.accepted;
  if (r.rule() != AcceptanceRule::lossy) {
    const NextFrom next_from = r.rule() == AcceptanceRule::greedy     ? NextFrom::greedy
                               : !r.round.verifies(r.accepted())      ? NextFrom::bonus
                               : r.rule() == AcceptanceRule::matching ? NextFrom::target
                                                                      : NextFrom::residual;
    r.findings.expect(
        r.round.next_from == next_from, "kind",
        [&] {
          return number(accepted) + " of " + number(drafted) +
                 " draft tokens are accepted, so the next token comes from '" + name_of(next_from) + "'";
        },
        [&] { return name_of(r.round.next_from) + r.about_accepted(); });
  }
  const auto& verification = r.sequence.declared.verification;
  if (verification && r.round.width) expect_width(r, *verification);
  if (const auto& max = r.sequence.declared.max_draft_tokens) {
    r.findings.expect(
        drafted <= *max, "draft_length", [&] { return "at most " + number(*max) + " draft tokens"; },
        [&] { return number(drafted) + " draft tokens"; });
  }
}

void name_unread_fields(const ReplayedRound& r) {
  const RoundEvent& round = r.round;
  const bool own_target = r.rows.has_target(round.sequence) && !r.rows.is_foreign(round.sequence);
  if (!round.logits_digests.empty() && !own_target) {
    r.findings.unread("logits_digests", "logits are known only of a target that computes in the numerics of the trace");
  }
  if (!round.p_digests.empty() && r.reals()) {
    r.findings.unread("p_digests", "digests are of integer weights");
  } else if (!round.p_digests.empty() && round.p_rows.empty() && !own_target) {
    r.findings.unread("p_digests", "there is no row to compare it with (--target, or field p_rows)");
  }
  if (!round.q_digests.empty() && r.reals()) {
    r.findings.unread("q_digests", "digests are of integer weights");
  } else if (!round.q_digests.empty() && round.q_rows.empty()) {
    r.findings.unread("q_digests", "there is no row to compare it with (field q_rows)");
  }
  const bool rows = !round.p_rows.empty() || !round.p_reals.empty();
  if (!round.top_logits.empty() && r.sequence.declared.changes_logits()) {
    r.findings.unread("top_logits", "penalties, biases, a grammar or other adjustments may change the order of tokens");
  } else if (!round.top_logits.empty() && r.rule() != AcceptanceRule::greedy && !rows) {
    r.findings.unread("top_logits", "there is no row to compare it with (field p_rows)");
  }
  const bool one_by_one = r.rule() == AcceptanceRule::matching || r.rule() == AcceptanceRule::rejection;
  const char* const other_rule = "under this rule it is not known what it decides";
  if (round.accept_u && !one_by_one) r.findings.unread("accept_u", other_rule);
  if (round.next && !one_by_one) r.findings.unread("next", other_rule);
  if (round.next_u && !one_by_one) r.findings.unread("next_u", other_rule);
  if (round.rng_positions && !(one_by_one && r.header.draws_follow_from_seed())) {
    r.findings.unread("rng_positions", "keys are compared only where coins are computed again from generator and seed");
  }
}

/// Checks that a round emits the accepted draft tokens and the next token, cut only where the text has to end.
void expect_emitted(const ReplayedRound& r) {
  const RoundEvent& round = r.round;
  std::vector<Token> tokens = round.accepted_tokens;
  const bool cut = round.emitted.size() <= tokens.size();
  if (round.next) tokens.push_back(round.next->token);
  else if (!cut) tokens.push_back(round.emitted.back());
  if (cut) {
    const std::size_t count = round.emitted.size();
    const bool ended = r.ends();
    r.sequence.stop_hidden = !ended && r.sequence.declared.hides_stop_tokens() && count < tokens.size() &&
                             r.sequence.stops_at(tokens[count]);
    if (!ended && !r.sequence.stop_hidden) {
      const std::string expected = "all accepted tokens are emitted: " + listed(tokens);
      r.sequence.cut = TraceFinding{"conservation", r.findings.place(), expected, listed(round.emitted)};
    }
    tokens.resize(count);
  }
  r.findings.expect(
      tokens == round.emitted, "conservation",
      [&] { return "the accepted draft tokens and the token after them: " + listed(tokens); },
      [&] { return listed(round.emitted); });
}

void count_depth(const ReplayedRound& r, std::size_t depth, const Distribution& p, const Distribution& q) {
  if (r.report.depths.size() <= depth) r.report.depths.resize(depth + 1);
  Depth& sum = r.report.depths[depth];
  ++sum.judged;
  sum.accepted += r.round.accepts(depth) ? 1 : 0;
  const bool matching = r.rule() == AcceptanceRule::matching;
  sum.expected +=
      static_cast<double>(matching ? agreement(p, q) : overlap(p, q)) / static_cast<double>(Distribution::total);
}

/// Replays what a round decides at a row: the draft token there, and the token.
void replay_row(const ReplayedRound& r, std::size_t row) {
  const RoundEvent& round = r.round;
  const bool verifies = round.verifies(row);
  if (verifies) expect_drafted(r, row);
  const KnownRow known = r.rows.after(r.sequence, round, row, r.findings);
  check_decision(r, row, known);
  DistributionAt q;
  RoundedDistribution of_reals;
  if (verifies && row < round.q_rows.size()) q.p = &round.q_rows[row];
  if (verifies && row < round.q_reals.size()) {
    of_reals = rounded_distribution(round.q_reals[row].tokens, round.q_reals[row].weights, r.header.unit);
    q = {&of_reals.distribution, of_reals.slack};
  }
  if (row < round.emitted.size()) {
    hold_logprobs(r, row, known);
    r.evidence.bet_on_token(r.sequence, round, row, known, q, r.findings);
  }
  // Which draft token of a tree is verified under matching follows from the target's draw, which decides about it.
  const bool by_draw = r.rule() == AcceptanceRule::matching && !round.depths.empty();
  const bool one_by_one = r.rule() != AcceptanceRule::block;
  if (const Distribution* const p = known.distribution(); p && q.p && !by_draw && one_by_one) {
    count_depth(r, row, *p, *q.p);
  }
}

/// Counts a round with draft tokens.
void count_round(const ReplayedRound& r) {
  const auto draft_tokens = static_cast<int>(r.round.draft_tokens.size());
  if (draft_tokens == 0) return;
  if (r.report.accepted.size() <= r.accepted()) r.report.accepted.resize(r.accepted() + 1);
  ++r.report.accepted[r.accepted()];
  const int accepted = std::min(r.round.accepted, static_cast<int>(r.round.emitted.size()));
  Statistics& counts = r.sequence.counts;
  ++counts.iterations;
  counts.drafted += draft_tokens;
  counts.accepted += accepted;
  ++(r.round.verifies(r.accepted()) ? counts.mismatches : counts.all_accepted);
  if (const auto& verification = r.sequence.declared.verification) {
    ++(*verification == Verification::serial ? counts.serial : counts.batched);
  }
  r.report.examined.accepted += accepted;
}

void replay_draft_tokens(const ReplayedRound& r) {
  const std::vector<Token>& draft_tokens = r.round.draft_tokens;
  expect_shape(r);
  name_unread_fields(r);
  expect_emitted(r);
  // A draft token is verified only where those before it were accepted, so it is bet on after their acceptance.
  for (std::size_t row = 0; row <= r.accepted(); ++row) {
    replay_row(r, row);
    if (row < r.accepted()) r.sequence.text.push_back(r.round.accepted_tokens[row]);
  }
  for (auto j = static_cast<std::size_t>(r.round.verified); j < draft_tokens.size(); ++j) expect_drafted(r, j);
  r.sequence.text.resize(static_cast<std::size_t>(r.position_of(0)));
  if (r.rule() == AcceptanceRule::block) check_block(r);
  if (r.round.rng_positions) r.coins.expect_keys(*r.round.rng_positions, r.rule(), r.findings);
  if (r.round.verifies(r.accepted())) r.sequence.rejected = draft_tokens[r.accepted()];
  count_round(r);
}

/// Adds the tokens of the round to the text; checks that it did not go on behind an end, nor beyond its budget.
void add_to_text(const ReplayedRound& r) {
  const std::vector<Token>& emitted = r.round.emitted;
  OpenSequence& sequence = r.sequence;
  for (std::size_t i = 0; i + 1 < emitted.size(); ++i) {
    r.findings.expect(
        !sequence.stops_at(emitted[i]), "termination",
        [&] { return "the text ends with stop token " + number(emitted[i]); },
        [&] { return "emitted " + listed(emitted); });
    expect_open(r, std::span(emitted).first(i + 1), emitted[i + 1]);
  }
  if (r.rows.has_target(r.round.sequence) && r.rows.is_foreign(r.round.sequence)) {
    const bool stated = !r.round.p_rows.empty() || !r.round.p_reals.empty();
    r.evidence.set_basis(stated ? Basis::rows : Basis::target);
  }
  ++sequence.counts.rounds;
  sequence.text.insert(sequence.text.end(), emitted.begin(), emitted.end());
  r.report.examined.tokens += static_cast<std::int64_t>(emitted.size());
  if (const auto& budget = sequence.declared.max_new_tokens) {
    r.findings.expect(
        sequence.emitted() <= *budget, "budget", [&] { return "at most " + number(*budget) + " tokens"; },
        [&] { return number(sequence.emitted()) + " tokens"; });
  }
}

}  // namespace

void replay_round(ReplayedRound r) {
  ++r.report.examined.rounds;
  r.report.examined.rounds_with_drafts += r.round.has_draft_tokens ? 1 : 0;
  expect_next(r);
  r.findings.begin();  // of what the round decides
  r.coins.begin_round();
  r.sequence.decided_end = r.position_of(0) + r.sequence.rows_of_the_text(r.round);
  if (!r.round.faults.empty()) report_faults(r);
  else if (r.round.has_draft_tokens) replay_draft_tokens(r);
  else replay_tokens(r);
  add_to_text(r);
  r.rows.expect_state(r.sequence, r.round, r.findings);
}

}  // namespace draftproof::spectrace
