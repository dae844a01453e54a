// SPDX-License-Identifier: MIT
#include "oracle/spectrace/row_decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace draftproof::spectrace {
namespace {

using ExactRow = std::optional<Distribution>;

std::string decision_on(const ReplayedRound& r, std::size_t row) {
  return r.round.accepts(row) ? "it was accepted" : "it was rejected" + r.about_accepted();
}

bool is_refused(const ReplayedRound& r, Token token) {
  return std::ranges::find(r.round.refused, token) != r.round.refused.end();
}

void expect_hit(const ReplayedRound& r, const char* check, const Hit& hit, const Draw& draw) {
  r.findings.expect_equal(check, "token " + number(hit.token) + " has the weight", hit.weight, draw.weight);
  r.findings.expect_equal(check, "the weight before token " + number(hit.token) + " is", hit.before, draw.before);
}

void check_greedy_row(const ReplayedRound& r, std::size_t row, const ExactRow& p) {
  const RoundEvent& round = r.round;
  std::optional<Token> best;
  if (p && p->is_point()) best = p->tokens().front();
  if (row < round.top_logits.size()) {
    const TopTwo& stated = round.top_logits[row];
    r.findings.expect(
        stated.first_logit >= stated.second_logit, "best", [] { return std::string("the best token comes first"); },
        [&] { return "token " + number(stated.second) + " has more than token " + number(stated.first); });
    const bool decides = !r.sequence.declared.changes_logits();
    if (best && decides) r.findings.expect_equal("best", "the best token is", *best, stated.first);
    if (!best && decides) best = stated.first;
  }
  if (!best) {
    r.report.missing.insert(r.rows.is_foreign(round.sequence)
                                ? "greedy rounds do not state the best tokens in their own numerics (field top_logits)"
                                : "greedy rounds do not state the best tokens; give the target");
    return;
  }
  if (row < r.accepted()) {
    r.findings.expect_equal("acceptance", "a draft token is accepted when it is the best token,", *best,
                            round.accepted_tokens[row]);
    return;
  }
  ++r.report.examined.draws;
  r.findings.expect(
      !is_refused(r, *best), "acceptance",
      [&] { return "draft token " + number(*best) + " is the best token and is accepted"; },
      [&] { return decision_on(r, row); });
  if (round.emitted.size() > r.accepted()) {
    r.findings.expect_equal("own_draw", "the best token is", *best, round.emitted.back());
  }
}

std::string next_draw_missing(const ReplayedRound& r) {
  return std::string("the trace does not state how the tokens after the draft tokens were drawn (") +
         (r.reals() ? "field next_u, of a tree sibling_u, with p_rows and q_rows)"
                    : "field next, of a tree sibling_draws)");
}

/// Bets on the coin of a row's draw for real weights; returns false where it is not stated.
bool bet_on_draw(const ReplayedRound& r, std::size_t row) {
  const std::optional<std::optional<double>> u = r.round.draw_u_at(row);
  if (!u) return false;
  if (*u) r.coins.bet_on_coin(r.sequence, r.position_of(row), Stream::target, **u);
  return true;
}

/// Checks the target's own draw after the draft tokens.
void check_next(const ReplayedRound& r, const char* check, std::size_t row, const ExactRow& p) {
  const RoundEvent& round = r.round;
  if (bet_on_draw(r, row) && row < round.p_reals.size()) {
    if (round.emitted.size() <= row) return;  // the token was cut and is not stated
    r.coins.expect_real_draw(check, RealWeights(round.p_reals[row], r.header.unit), *round.next_u, round.emitted.back(),
                             r.target_stream(row), r.findings);
    return;
  }
  if (!round.next) {
    r.coins.draws_unknown(Purpose::target);
    const auto own = p ? r.coins.token_of(*p, r.sequence, r.position_of(row)) : std::nullopt;
    if (!own) {
      r.report.missing.insert(next_draw_missing(r));
    } else if (round.emitted.size() > row) {
      ++r.report.examined.draws;
      r.findings.expect_equal(check, "the target's own draw is", *own, round.emitted.back());
    }
    return;
  }
  const Draw& draw = *round.next;
  r.findings.expect_equal(check, "the target draws below", r.header.total, draw.bound);
  r.findings.expect(
      !draw.p && !draw.q, check, [] { return std::string("only a residual draw has p and q"); },
      [] { return std::string("p or q"); });
  r.coins.expect_draw(check, r.sequence, r.position_of(row), Purpose::target, draw, r.findings);
  if (p) expect_hit(r, "p_row", SparseWeights(*p).of(draw.token), draw);
}

/// Checks the target's draw that a draft token equaled. `computed`: that draw was computed from p and the seed.
void check_accepted_match(const ReplayedRound& r, std::size_t row, const ExactRow& p, bool computed) {
  const RoundEvent& round = r.round;
  const Token draft_token = round.accepted_tokens[row];
  if (r.reals() && round.accept_u) {
    const std::optional<double> coin = real_coin((*round.accept_u)[row]);
    if (coin) r.coins.bet_on_coin(r.sequence, r.position_of(row), Stream::target, *coin);
    if (row < round.p_reals.size()) {
      r.coins.expect_real_draw("acceptance", RealWeights(round.p_reals[row], r.header.unit), coin, draft_token,
                               r.target_stream(row), r.findings);
      return;
    }
  }
  if (!round.p_draft || !round.accept_u || !round.p_before) {
    r.coins.draws_unknown(Purpose::target);
    if (!computed) {
      r.report.missing.insert("the trace does not state with which coin the target drew the accepted draft tokens");
    }
    return;
  }
  const auto u = integer_coin((*round.accept_u)[row]);
  const std::uint64_t weight = (*round.p_draft)[row].integer;
  const Draw draw{draft_token, u, r.header.total, (*round.p_before)[row], weight, {}, {}};
  r.coins.expect_draw("acceptance", r.sequence, r.position_of(row), Purpose::target, draw, r.findings);
  if (p) expect_hit(r, "p_row", SparseWeights(*p).of(draft_token), draw);
}

void check_matching_row(const ReplayedRound& r, std::size_t row, const ExactRow& p) {
  const RoundEvent& round = r.round;
  const auto own = p ? r.coins.token_of(*p, r.sequence, r.position_of(row)) : std::nullopt;
  if (row < r.accepted()) {
    if (own) {
      r.findings.expect_equal("acceptance", "a draft token is accepted when it is the target's own draw,", *own,
                              round.accepted_tokens[row]);
    }
    return check_accepted_match(r, row, p, own.has_value());
  }
  if (const auto next = round.token_at(row)) {
    r.findings.expect(
        !is_refused(r, *next), "acceptance",
        [&] { return "draft token " + number(*next) + " is the target's own draw and is accepted"; },
        [] { return std::string("it was rejected"); });
  }
  check_next(r, round.verifies(row) ? "own_draw" : "bonus", row, p);
}

void check_integer_acceptance(const ReplayedRound& r, std::size_t row) {
  const RoundEvent& round = r.round;
  const std::uint64_t p = (*round.p_draft)[row].integer;
  const std::uint64_t q = (*round.q_draft)[row].integer;
  const auto& coin = (*round.accept_u)[row];
  if (coin) r.coins.expect_coin(r.sequence, r.position_of(row), Purpose::accept, q, coin->integer, r.findings);
  r.findings.expect(
      coin || p >= q || p == 0, "acceptance",
      [&] { return "a coin is drawn, as p " + number(p) + " < q " + number(q); },
      [] { return std::string("no coin"); });
  const bool due = p >= q || (coin && coin->integer < p);
  r.findings.expect(
      due == round.accepts(row), "acceptance",
      [&] {
        return "draft token " + number(round.draft_tokens[row]) + " with p " + number(p) + ", q " + number(q) +
               (coin ? ", coin " + number(coin->integer) : "") + (due ? " is accepted" : " is rejected");
      },
      [&] { return decision_on(r, row); });
}

/// Checks an acceptance of real numbers: only what rounding cannot turn is a finding.
void check_real_acceptance(const ReplayedRound& r, std::size_t row) {
  const RoundEvent& round = r.round;
  const double p = (*round.p_draft)[row].real;
  const double q = (*round.q_draft)[row].real;
  const auto& coin = (*round.accept_u)[row];
  const bool accepted = round.accepts(row);
  const double reach = coin ? coin->real * q : q;
  const double wide = 4 * r.header.unit;
  const bool near = std::fabs(reach - p) <= wide * std::max(p, reach) && p > 0;
  if (coin) {
    const bool decides = p > 0 && p < q;
    r.coins.bet_on_coin(r.sequence, r.position_of(row), Stream::accept, coin->real, decides);
  }
  if (coin && q > 0 && r.sequence.is_evidence(r.position_of(row))) {
    // The probability that a coin lies so near, whatever this coin was; coins are at least a unit apart.
    const double max = std::min(1.0, p / (1 - wide) / q);
    const double min = std::min(1.0, p * (1 - wide) / q);
    r.evidence.games().within_rounding(Stream::accept, std::min(1.0, max - min + r.header.unit), near);
  }
  const std::string draft_token = fmt::format("draft token {} with p {}, q {}", round.draft_tokens[row], p, q);
  const auto observed = [&] { return decision_on(r, row); };
  if (!coin) {
    const bool reached = p >= q || near;
    r.findings.expect(
        p == 0 ? !accepted : accepted && reached, "acceptance",
        [&] {
          return draft_token + (p == 0    ? " is rejected, as p is 0"
                                : reached ? " is accepted, as no coin is drawn"
                                          : " needs a coin");
        },
        [&] { return observed() + " without a coin"; });
    return;
  }
  if (near) return;
  const bool due = reach < p;
  r.findings.expect(
      due == accepted, "acceptance",
      [&] { return draft_token + fmt::format(", coin {}", coin->real) + (due ? " is accepted" : " is rejected"); },
      observed);
}

/// Returns what the draft token was drawn from, where all of it is stated: a row, or one token with all the weight.
ExactRow draft_row(const ReplayedRound& r, std::size_t row) {
  const RoundEvent& round = r.round;
  if (row < round.q_rows.size()) return round.q_rows[row];
  if (round.q_draft && (*round.q_draft)[row].integer == r.header.total) {
    return Distribution::point(round.draft_tokens[row]);
  }
  return std::nullopt;
}

/// Checks the stated draw from max(p - q, 0).
void check_integer_residual(const ReplayedRound& r, std::size_t row, const Draw& draw, const ExactRow& p) {
  const bool whole = r.findings.expect(
      draw.p && draw.q, "residual", [] { return std::string("a residual draw states p and q of its token"); },
      [] { return std::string("one is missing"); });
  if (!whole) return;
  r.findings.expect_equal("residual", "max(p - q, 0) is", *draw.p > *draw.q ? *draw.p - *draw.q : 0, draw.weight);
  r.coins.expect_draw("residual", r.sequence, r.position_of(row), Purpose::residual, draw, r.findings);
  if (p) {
    r.findings.expect_equal("p_row", "p of token " + number(draw.token) + " is", p->weight(draw.token), *draw.p);
  }
  const ExactRow q = draft_row(r, row);
  if (!q) {
    r.report.missing.insert(
        "the trace does not state the rows of q that residuals are taken from (field q_rows; --trace-rows writes it)");
    return;
  }
  r.findings.expect_equal("q_row", "q of token " + number(draw.token) + " is", q->weight(draw.token), *draw.q);
  if (!p) return;
  const SparseWeights residual(*p, *q);
  r.findings.expect_equal("residual", "max(p - q, 0) adds up to", residual.sum(), draw.bound);
  expect_hit(r, "residual", residual.of(draw.token), draw);
}

/// Checks the draw after the rejection of the draft token at a row. In a tree it may have selected one of its siblings,
/// which is accepted.
void check_residual(const ReplayedRound& r, std::size_t row, const ExactRow& p) {
  const RoundEvent& round = r.round;
  const Token draft_token = round.draft_tokens[row];
  const std::optional<Token> token = round.token_at(row);
  if (token && row == r.accepted()) {
    r.findings.expect(
        *token != draft_token, "residual", [&] { return "a rejected draft token has no weight in max(p - q, 0)"; },
        [&] { return "token " + number(draft_token) + " again"; });
    r.findings.expect(
        *token == draft_token || !is_refused(r, *token), "acceptance",
        [&] {
          return "draft token " + number(*token) + " is drawn after the rejection of its sibling and is accepted";
        },
        [] { return std::string("it was rejected"); });
  }
  if (bet_on_draw(r, row) && row < round.p_reals.size() && row < round.q_reals.size()) {
    if (!token) return;  // it was cut and is not stated
    const RealWeights residual(round.p_reals[row], round.q_reals[row], r.header.unit);
    r.coins.expect_real_draw("residual", residual, *round.draw_u_at(row), *token, r.target_stream(row), r.findings);
    return;
  }
  const std::optional<Draw> draw = round.draw_at(row);
  if (!draw) {
    r.coins.draws_unknown(Purpose::residual);
    r.report.missing.insert(next_draw_missing(r));
    return;
  }
  if (row < r.accepted()) {
    r.findings.expect_equal("residual", "the draw selects the accepted draft token", *token, draw->token);
  }
  check_integer_residual(r, row, *draw, p);
}

void check_rejection_row(const ReplayedRound& r, std::size_t row, const KnownRow& known) {
  const RoundEvent& round = r.round;
  if (!round.verifies(row)) return check_next(r, "bonus", row, known.p);
  r.evidence.bet_on_acceptance(r.sequence, round, row, known, r.findings.place());
  if (!round.p_draft || !round.q_draft || !round.accept_u) {
    r.coins.draws_unknown(Purpose::accept);
    r.report.missing.insert("the trace does not state with which p, q and coin draft tokens were verified");
  } else if (r.reals()) {
    check_real_acceptance(r, row);
  } else {
    check_integer_acceptance(r, row);
  }
  if (!round.accepts(row)) check_residual(r, row, known.p);
}

/// Checks that the stated p of a draft token is that of the rows.
void expect_stated_p(const ReplayedRound& r, std::size_t row, const ExactRow& p) {
  const RoundEvent& round = r.round;
  if (!round.p_draft || row >= round.p_draft->size()) return;
  const Token draft_token = round.draft_tokens[row];
  const StatedNumber& stated = (*round.p_draft)[row];
  if (p) {
    r.findings.expect_equal("p_row", "p of draft token " + number(draft_token) + " is", p->weight(draft_token),
                            stated.integer);
  }
  if (row < round.p_reals.size()) {
    expect_stated(r, "p_row", draft_token, round.p_reals[row].weight(draft_token), stated.real);
  }
}

}  // namespace

void check_decision(const ReplayedRound& r, std::size_t row, const KnownRow& known) {
  if (r.round.verifies(row)) {
    ++r.report.examined.draft_tokens;
    expect_stated_p(r, row, known.p);
  }
  switch (r.rule()) {
    case AcceptanceRule::greedy: check_greedy_row(r, row, known.p); break;
    case AcceptanceRule::matching: check_matching_row(r, row, known.p); break;
    case AcceptanceRule::rejection: check_rejection_row(r, row, known); break;
    case AcceptanceRule::block: break;  // of all draft tokens together
    case AcceptanceRule::lossy: break;
  }
  r.evidence.forfeit_unstated_coins(r.sequence, r.round, row, known, r.findings.place());
}

}  // namespace draftproof::spectrace
