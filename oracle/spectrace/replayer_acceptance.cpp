// SPDX-License-Identifier: MIT
// What a round decides at each row of the target: whether a draft token is accepted, and which token follows the
// accepted ones.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oracle/spectrace/replayer.h"

namespace draftproof::spectrace {

void Replayer::check_row(OpenSequence& sequence, const RoundEvent& round, std::size_t row, const KnownRow& known) {
  const bool drafted = row < round.draft_tokens.size();
  if (drafted) ++report_.examined.draft_tokens;
  if (drafted && round.p_draft && row < round.p_draft->size()) {
    const Token draft_token = round.draft_tokens[row];
    const StatedNumber& stated = (*round.p_draft)[row];
    if (known.p) {
      expect_equal("p_row", "p of draft token " + number(draft_token) + " is", known.p->weight(draft_token),
                   stated.integer);
    }
    if (row < round.p_reals.size()) {
      expect_stated("p_row", draft_token, round.p_reals[row].weight(draft_token), stated.real);
    }
  }
  switch (rule_) {
    case AcceptanceRule::greedy: check_greedy_row(sequence, round, row, known.p); break;
    case AcceptanceRule::matching: check_matching_row(sequence, round, row, known.p); break;
    case AcceptanceRule::rejection: check_rejection_row(sequence, round, row, known); break;
    case AcceptanceRule::block:
      report_.missing.insert("block verification decides about all draft tokens together: which of them are accepted "
                             "is not replayed");
      break;
    case AcceptanceRule::lossy: break;
  }
  forfeit_unstated_coins(sequence, round, row, known);
}

void Replayer::check_greedy_row(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                                const std::optional<Distribution>& p) {
  std::optional<Token> best;
  if (p && p->is_point()) best = p->tokens().front();
  if (row < round.top_logits.size()) {
    const TopTwo& stated = round.top_logits[row];
    expect(
        stated.first_logit >= stated.second_logit, "best", [] { return std::string("the best token comes first"); },
        [&] { return "token " + number(stated.second) + " has more than token " + number(stated.first); });
    const bool decides = !sequence.declared.changes_logits();
    if (best && decides) expect_equal("best", "the best token is", *best, stated.first);
    if (!best && decides) best = stated.first;
  }
  if (!best) {
    report_.missing.insert(sequence.foreign
                               ? "greedy rounds do not state the best tokens in their own numerics (field top_logits)"
                               : "greedy rounds do not state the best tokens; give the target");
    return;
  }
  const auto accepted = static_cast<std::size_t>(round.accepted);
  if (row < accepted) {
    expect_equal("acceptance", "a draft token is accepted when it is the best token,", *best, round.draft_tokens[row]);
    return;
  }
  ++report_.examined.draws;
  if (row < round.draft_tokens.size()) {
    expect(
        round.draft_tokens[row] != *best, "acceptance",
        [&] { return "draft token " + number(*best) + " is the best token and is accepted"; },
        [&] { return decision_on(sequence, round, row); });
  }
  if (round.emitted.size() > accepted) {
    expect_equal("own_draw", "the best token is", *best, round.emitted.back());
  }
}

void Replayer::check_matching_row(OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                                  const std::optional<Distribution>& p) {
  const std::int64_t position = position_ + static_cast<std::int64_t>(row);
  const auto accepted = static_cast<std::size_t>(round.accepted);
  const auto own = p ? token_of(*p, sequence, position) : std::nullopt;
  if (row < accepted) {
    if (own) {
      expect_equal("acceptance", "a draft token is accepted when it is the target's own draw,", *own,
                   round.draft_tokens[row]);
    }
    check_accepted_match(sequence, round, row, p, own.has_value());
    return;
  }
  const bool cut = round.emitted.size() <= accepted;
  if (row < round.draft_tokens.size() && (round.next || !cut)) {
    const Token next = round.next ? round.next->token : round.emitted.back();
    expect(
        next != round.draft_tokens[row], "acceptance",
        [&] { return "draft token " + number(next) + " is the target's own draw and is accepted"; },
        [] { return std::string("it was rejected"); });
  }
  check_next(sequence, round, row < round.draft_tokens.size() ? "own_draw" : "bonus", position, p);
}

void Replayer::check_accepted_match(OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                                    const std::optional<Distribution>& p, bool computed) {
  const std::int64_t position = position_ + static_cast<std::int64_t>(row);
  const Token draft_token = round.draft_tokens[row];
  if (header_.total == 0 && round.accept_u) {
    const auto& coin = (*round.accept_u)[row];
    if (coin) bet_on_coin(sequence, position, Stream::target, coin->real);
    if (row < round.p_reals.size()) {
      expect_real_draw("acceptance", RealWeights(round.p_reals[row], header_.unit),
                       coin ? std::optional(coin->real) : std::nullopt, draft_token, target_stream(sequence, position));
      return;
    }
  }
  if (!round.p_draft || !round.accept_u || !round.p_before) {
    draws_unknown(Purpose::target);
    if (!computed) {
      report_.missing.insert("the trace does not state with which coin the target drew the accepted draft tokens");
    }
    return;
  }
  const auto u = integer((*round.accept_u)[row]);
  const std::uint64_t weight = (*round.p_draft)[row].integer;
  const Draw draw{draft_token, u, header_.total, (*round.p_before)[row], weight, {}, {}};
  expect_draw("acceptance", sequence, position, Purpose::target, draw);
  if (p) expect_hit("p_row", Weights(*p).of(draft_token), draw);
}

std::string Replayer::next_draw_missing() const {
  return std::string("the trace does not state how the tokens after the draft tokens were drawn (") +
         (header_.total > 0 ? "field next)" : "field next_u, with p_rows and q_rows)");
}

bool Replayer::bet_on_next(OpenSequence& sequence, const RoundEvent& round, std::int64_t position) {
  if (!round.next_u) return false;
  if (*round.next_u) bet_on_coin(sequence, position, Stream::target, **round.next_u);
  return true;
}

void Replayer::check_next(OpenSequence& sequence, const RoundEvent& round, const char* check, std::int64_t position,
                          const std::optional<Distribution>& p) {
  const auto accepted = static_cast<std::size_t>(round.accepted);
  if (bet_on_next(sequence, round, position) && accepted < round.p_reals.size()) {
    if (round.emitted.size() <= accepted) return;  // the token was cut and is not stated
    expect_real_draw(check, RealWeights(round.p_reals[accepted], header_.unit), *round.next_u, round.emitted.back(),
                     target_stream(sequence, position));
    return;
  }
  if (!round.next) {
    draws_unknown(Purpose::target);
    const auto own = p ? token_of(*p, sequence, position) : std::nullopt;
    if (!own) {
      report_.missing.insert(next_draw_missing());
    } else if (round.emitted.size() > accepted) {
      ++report_.examined.draws;
      expect_equal(check, "the target's own draw is", *own, round.emitted.back());
    }
    return;
  }
  const Draw& draw = *round.next;
  expect_equal(check, "the target draws below", header_.total, draw.bound);
  expect(
      !draw.p && !draw.q, check, [] { return std::string("only a residual draw has p and q"); },
      [] { return std::string("p or q"); });
  expect_draw(check, sequence, position, Purpose::target, draw);
  if (p) expect_hit("p_row", Weights(*p).of(draw.token), draw);
}

void Replayer::check_rejection_row(OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                                   const KnownRow& known) {
  const std::int64_t position = position_ + static_cast<std::int64_t>(row);
  if (row == round.draft_tokens.size()) return check_next(sequence, round, "bonus", position, known.p);
  bet_on_acceptance(sequence, round, row, known);
  if (!round.p_draft || !round.q_draft || !round.accept_u) {
    draws_unknown(Purpose::accept);
    report_.missing.insert("the trace does not state with which p, q and coin draft tokens were verified");
  } else if (header_.total == 0) {
    check_real_acceptance(sequence, round, row);
  } else {
    check_integer_acceptance(sequence, round, row);
  }
  if (row == static_cast<std::size_t>(round.accepted)) check_residual(sequence, round, row, position, known.p);
}

void Replayer::bet_on_acceptance(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                                 const KnownRow& known) {
  if (!is_evidence(sequence, position_ + static_cast<std::int64_t>(row))) return;
  const auto weight = [&](const std::optional<std::vector<StatedNumber>>& stated, const Distribution* of_row) {
    if (stated && row < stated->size()) {
      return header_.total == 0 ? (*stated)[row].real
                                : static_cast<double>((*stated)[row].integer) / static_cast<double>(header_.total);
    }
    return of_row == nullptr ? -1.0
                             : static_cast<double>(of_row->weight(round.draft_tokens[row])) /
                                   static_cast<double>(Distribution::total);
  };
  const double p = weight(round.p_draft, known.p ? &*known.p : known.reals ? &known.reals->distribution : nullptr);
  const Distribution* const q_row = row < round.q_rows.size() ? &round.q_rows[row] : nullptr;
  double q = weight(round.q_draft, q_row);
  if (q < 0 && row < round.q_reals.size()) q = round.q_reals[row].weight(round.draft_tokens[row]);
  const bool accepted = row < static_cast<std::size_t>(round.accepted);
  const bool computed = header_.draws_follow_from_seed() && round.accept_u;  // needs no bet
  if (p < 0 || q < 0 || computed) {
    if (!computed) acceptance_stated_.add(false, line_);
    evidence_.unknown_acceptance(accepted);
    return;
  }
  acceptance_stated_.add(true, line_);
  if (p == 0 || q <= p) return;
  evidence_.acceptance(p / q, accepted,
                       header_.total == 0 ? 8 * header_.unit : 0);
}

void Replayer::check_integer_acceptance(OpenSequence& sequence, const RoundEvent& round, std::size_t row) {
  const std::int64_t position = position_ + static_cast<std::int64_t>(row);
  const bool accepted = row < static_cast<std::size_t>(round.accepted);
  const std::uint64_t p = (*round.p_draft)[row].integer;
  const std::uint64_t q = (*round.q_draft)[row].integer;
  const auto& coin = (*round.accept_u)[row];
  if (coin) expect_coin(sequence, position, Purpose::accept, q, coin->integer);
  expect(
      coin || p >= q || p == 0, "acceptance",
      [&] { return "a coin is drawn, as p " + number(p) + " < q " + number(q); },
      [] { return std::string("no coin"); });
  const bool due = p >= q || (coin && coin->integer < p);
  expect(
      due == accepted, "acceptance",
      [&] {
        return "draft token " + number(round.draft_tokens[row]) + " with p " + number(p) + ", q " + number(q) +
               (coin ? ", coin " + number(coin->integer) : "") + (due ? " is accepted" : " is rejected");
      },
      [&] { return decision_on(sequence, round, row); });
}

std::string Replayer::decision_on(const OpenSequence& sequence, const RoundEvent& round, std::size_t row) {
  return row < static_cast<std::size_t>(round.accepted) ? "it was accepted"
                                                       : "it was rejected" + about_accepted(sequence, round);
}

void Replayer::check_real_acceptance(OpenSequence& sequence, const RoundEvent& round, std::size_t row) {
  const double p = (*round.p_draft)[row].real;
  const double q = (*round.q_draft)[row].real;
  const auto& coin = (*round.accept_u)[row];
  const bool accepted = row < static_cast<std::size_t>(round.accepted);
  const double reach = coin ? coin->real * q : q;
  const double wide = 4 * header_.unit;
  const bool near = std::fabs(reach - p) <= wide * std::max(p, reach) && p > 0;
  if (coin) {
    const bool decides = p > 0 && p < q;
    bet_on_coin(sequence, position_ + static_cast<std::int64_t>(row), Stream::accept, coin->real, decides);
  }
  if (coin && q > 0 && is_evidence(sequence, position_ + static_cast<std::int64_t>(row))) {
    // The probability that a coin lies so near, whatever this coin was; coins are at least a unit apart.
    const double most = std::min(1.0, p / (1 - wide) / q);
    const double least = std::min(1.0, p * (1 - wide) / q);
    evidence_.within_rounding(Stream::accept, std::min(1.0, most - least + header_.unit), near);
  }
  const std::string draft_token = fmt::format("draft token {} with p {}, q {}", round.draft_tokens[row], p, q);
  const auto observed = [&] { return decision_on(sequence, round, row); };
  if (!coin) {
    const bool reached = p >= q || near;
    expect(
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
  expect(
      due == accepted, "acceptance",
      [&] {
        return draft_token + fmt::format(", coin {}", coin->real) + (due ? " is accepted" : " is rejected");
      },
      observed);
}

std::optional<Distribution> Replayer::draft_row(const RoundEvent& round, std::size_t row) const {
  if (row < round.q_rows.size()) return round.q_rows[row];
  if (round.q_draft && (*round.q_draft)[row].integer == header_.total) {
    return Distribution::point(round.draft_tokens[row]);
  }
  return std::nullopt;
}

void Replayer::check_residual(OpenSequence& sequence, const RoundEvent& round, std::size_t row, std::int64_t position,
                              const std::optional<Distribution>& p) {
  const Token draft_token = round.draft_tokens[row];
  if (round.emitted.size() > row) {
    expect(
        round.emitted.back() != draft_token, "residual",
        [&] { return "a rejected draft token has no weight in max(p - q, 0)"; },
        [&] { return "token " + number(draft_token) + " again"; });
  }
  if (bet_on_next(sequence, round, position) && row < round.p_reals.size() && row < round.q_reals.size()) {
    if (round.emitted.size() <= row) return;  // the token was cut and is not stated
    expect_real_draw("residual", RealWeights(round.p_reals[row], round.q_reals[row], header_.unit), *round.next_u,
                     round.emitted.back(), target_stream(sequence, position));
    return;
  }
  if (!round.next) {
    draws_unknown(Purpose::residual);
    report_.missing.insert(next_draw_missing());
    return;
  }
  const Draw& draw = *round.next;
  if (!expect(
          draw.p && draw.q, "residual", [] { return std::string("a residual draw states p and q of its token"); },
          [] { return std::string("one is missing"); })) {
    return;
  }
  expect_equal("residual", "max(p - q, 0) is", *draw.p > *draw.q ? *draw.p - *draw.q : 0, draw.weight);
  expect_draw("residual", sequence, position, Purpose::residual, draw);
  if (p) expect_equal("p_row", "p of token " + number(draw.token) + " is", p->weight(draw.token), *draw.p);
  const std::optional<Distribution> q = draft_row(round, row);
  if (!q) {
    report_.missing.insert(
        "the trace does not state the rows of q that residuals are taken from (field q_rows; --trace-rows writes it)");
    return;
  }
  expect_equal("q_row", "q of token " + number(draw.token) + " is", q->weight(draw.token), *draw.q);
  if (!p) return;
  const Weights residual(*p, *q);
  expect_equal("residual", "max(p - q, 0) adds up to", residual.sum(), draw.bound);
  expect_hit("residual", residual.of(draw.token), draw);
}

}  // namespace draftproof::spectrace
