// SPDX-License-Identifier: MIT
#include "oracle/spectrace/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oracle/spectrace/draws.h"

namespace draftproof::spectrace {
namespace {

/// A row with this much slack or more excludes too little to bet on it.
constexpr double slack_max = 0.25;

std::vector<std::string> names_of(const std::vector<Suspect>& suspects) {
  std::vector<std::string> names;
  for (const Suspect& suspect : suspects) names.push_back(suspect.name);
  return names;
}

}  // namespace

Evidence::Evidence(const Header& header, const TraceTarget& target, RowSource& rows, TraceReport& report)
    : header_(header),
      target_(target),
      rows_(rows),
      report_(report),
      games_(header.vocabulary, target.slack, header.u_bits, names_of(target.suspects)),
      of_lossy_(header.vocabulary, target.slack, header.u_bits, {}) {}

void Evidence::bet_on_token(OpenSequence& sequence, const RoundEvent& round, std::size_t row, const KnownRow& known,
                            const DistributionAt& q, const Findings& findings) {
  const AcceptanceRule rule = sequence.rule();
  const Token token = round.emitted[row];
  const std::int64_t position = findings.place().position + static_cast<std::int64_t>(row);
  if (known.best) return check_greedy_token(sequence, *known.best, token, position, findings);
  const std::optional<RoundedDistribution> top = sequence.distribution_of_top(round, row, header_);
  if (row < round.top_logprobs.size()) sequence.top_logprobs.learn(round.top_logprobs[row], token);
  DistributionAt distribution = basis_of(rule, known, top);
  p_stated_.add(distribution.p != nullptr, findings.place().line);
  if (distribution.p == nullptr) {
    if (!sequence.greedy() && sequence.fresh(position)) games_of(rule).unknown_token(unknown_slack());
    return;
  }
  const bool of_top = top && distribution.p == &top->distribution;
  const bool stated = !known.near || distribution.p != &known.near->p;
  const bool of_reference = stated && is_reference();
  if (of_reference) distribution.slack += target_.slack;
  // A token that was compared with a draft token also carries the rounding of q
  // (oracle/sequential/rounded_distribution.h).
  if (known.reals && round.verifies(row)) {
    distribution.slack += (q.p ? q.slack : known.reals->slack) + 4 * header_.unit;
  }
  const Token outcome = of_top && distribution.p->weight(token) == 0 ? header_.vocabulary : token;
  // A slack that rests on tokens alone leaves the edges of cuts open: tokens beyond them are bet on only.
  const bool open_edge = !stated && target_.slack_from_tokens > 0;
  if (!of_reference && rule != AcceptanceRule::lossy && !open_edge && findings.none()) {
    const bool possible = stated ? distribution.p->weight(outcome) > 0
                                 : known.near->allows(outcome) || rows_.allows_exactly(sequence, outcome);
    expect_possible(token, possible, stated, position, findings);
  }
  std::vector<std::optional<Distribution>> suspected;
  if (!of_top) suspected = known.suspected;
  std::optional<NextToken> no_stop;
  if (sequence.declared.hides_stop_tokens() && !distribution.p->is_point()) {
    // A stop token would not be seen: this one was drawn from p, given that it is none.
    no_stop = without(*distribution.p, *sequence.declared.stop_tokens, distribution.slack);
    if (!no_stop) return;
    // Of top_logprobs, any of the tokens that are not listed may be a stop token.
    const double hidden = of_top ? static_cast<double>(no_stop->p.weight(header_.vocabulary)) : 0;
    const double apart = no_stop->slack + hidden / static_cast<double>(Distribution::total);
    distribution = {&no_stop->p, std::min(1.0, apart)};
    for (std::optional<Distribution>& of_suspect : suspected) {
      if (!of_suspect) continue;
      std::optional<NextToken> same = without(*of_suspect, *sequence.declared.stop_tokens, 0);
      of_suspect = same ? std::optional(std::move(same->p)) : std::nullopt;
    }
  }
  if (distribution.p->is_point() && stated && !of_reference) return;
  if (distribution.slack >= slack_max) {
    ++loose_;
  } else if (!sequence.fresh(position)) {
    ++not_bet_;
  } else if (distribution.p->is_point()) {
    games_.token_of_a_point(distribution.slack, distribution.p->weight(outcome) == 0);
  } else {
    // Under matching one number may draw both the draft token and the token, and whether there is a draft token may
    // depend on that number. So q is not known before the token and must not be used.
    const bool with_q = rule != AcceptanceRule::matching && sequence.declared.max_draft_tokens != 0;
    const bool drafted = !round.has_draft_tokens || round.verifies(row);
    games_of(rule).token(*distribution.p, distribution.slack, with_q ? q.p : nullptr, with_q && drafted, outcome,
                         sequence.text, sequence.rejected, sequence.rejected_unknown, suspected);
  }
}

/// Checks that a token has a weight in its p, or in some distribution that the slack allows.
void Evidence::expect_possible(Token token, bool is_possible, bool stated, std::int64_t position,
                               const Findings& findings) {
  findings.expect(
      is_possible, "distribution",
      [&] {
        return stated ? "p at position " + number(position) + " has no weight for token " + number(token)
                      : fmt::format("at position {} no distribution within {:g} of the target's allows token {}",
                                    position, target_.slack, token);
      },
      [&] { return "token " + number(token); });
}

/// Returns what to bet on a token with; nothing where it is not known. Call once for each token.
DistributionAt Evidence::basis_of(AcceptanceRule rule, const KnownRow& known,
                                  const std::optional<RoundedDistribution>& of_top) {
  // A row of several tokens is not the distribution of greedy tokens.
  const auto distribution_at = [&](const Distribution& p, double slack) {
    return rule != AcceptanceRule::greedy || p.is_point() ? DistributionAt{&p, slack} : DistributionAt{};
  };
  DistributionAt row;
  DistributionAt top;
  if (known.p) row = distribution_at(*known.p, 0);
  if (known.reals && row.p == nullptr) row = distribution_at(known.reals->distribution, known.reals->slack);
  if (of_top) top = distribution_at(of_top->distribution, of_top->slack);
  if (known.own) return row;  // the target's own, whatever the trace states
  if (basis_ == Basis::none) {
    basis_ = known.near ? Basis::target : row.p ? Basis::rows : top.p ? Basis::top : Basis::none;
  }
  DistributionAt chosen = basis_ == Basis::rows ? row : basis_ == Basis::top ? top : DistributionAt{};
  if (basis_ == Basis::target && known.near) chosen = {&known.near->p, known.near->slack};
  if (chosen.p == nullptr) basis_ = Basis::none;  // another one from the next token on
  return chosen;
}

/// Checks a greedy token of other numerics: it may differ from the target's best token where the two are near ties.
void Evidence::check_greedy_token(const OpenSequence& sequence, const BestToken& best, Token token,
                                  std::int64_t position, const Findings& findings) {
  GreedyTokens& greedy = report_.greedy;
  ++greedy.tokens;
  const double gap = best.gap(token);
  const double apart = best.apart(token);
  if (token != best.token()) {
    ++greedy.not_best;
    greedy.apart = std::max(greedy.apart, apart);
    if (gap > greedy.gap || greedy.line == 0) {
      greedy.gap = gap;
      greedy.line = findings.place().line;
      greedy.position = position;
    }
  }
  if (sequence.rule() == AcceptanceRule::lossy) return;
  if (target_.tie_scale > 0 && sequence.fresh(position)) {
    games_.token_of_a_point(best.exchanged(target_.tie_scale), token != best.token());
  }
  const bool granted = target_.tie > 0 || target_.slack > 0;
  const bool tie = gap <= target_.tie || apart <= 2 * target_.slack;
  // Engines count differently what penalties punish, so their effect on a token may be more than numerics.
  const bool penalized = sequence.declared.sampling.penalizes() && std::isfinite(gap);
  const bool open = !tie && !granted && (gap < best.gap_beyond_numerics() || penalized);
  if (open) greedy.open = std::max(greedy.open, gap);
  // Where the reference errs by this much on either token, the other one may be the best.
  const bool within_error = !tie && !open && gap <= target_.tie + 2 * rows_.reference_error(sequence);
  findings.expect(
      tie || open || within_error, "best",
      [&] { return fmt::format("at position {} the target's best token is {}", position, best.token()); },
      [&] {
        return fmt::format("token {}, {:.4g} below it in logits, {:.4g} in probability: {}", token, gap, apart,
                           granted ? "no near tie" : "more than numerics explain");
      });
}

void Evidence::bet_on_draft(AcceptanceRule rule, const RoundEvent& round, std::size_t j, const TracePlace& place) {
  const bool from_seed = header_.draws_follow_from_seed();
  const bool rejection = rule == AcceptanceRule::rejection;
  const bool point =
      round.q_draft && (reals() ? (*round.q_draft)[j].real == 1 : (*round.q_draft)[j].integer == header_.total);
  const bool coin = round.q_draft && round.draft_u && (*round.draft_u)[j] && (reals() || round.q_before);
  if (!from_seed && (reals() || rejection)) {
    if (coin) coins_of(Stream::draft).add(true, place.line);
    else if (!point) forfeit_coin(Stream::draft, 1, place);
    if (coin && reals() && j >= round.q_reals.size()) games_.unknown_within_rounding(Stream::draft, 1);
  }

  // A draw that is computed again needs no bet.
  const bool computed = rejection && from_seed && round.draft_u;
  if (j < round.q_rows.size() && !computed) {
    games_.draft_token(round.q_rows[j], 0, round.draft_tokens[j]);
  } else if (j < round.q_reals.size()) {
    const RealRow& row = round.q_reals[j];
    const RoundedDistribution q = rounded_distribution(row.tokens, row.weights, header_.unit);
    games_.draft_token(q.distribution, q.slack, round.draft_tokens[j]);
  } else if (!point) {
    if (!computed) q_stated_.add(false, place.line);
    games_.unknown_draft_token(reals() ? 1 : 0);
    return;
  }
  q_stated_.add(true, place.line);
}

void Evidence::bet_on_acceptance(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                                 const KnownRow& known, const TracePlace& place) {
  if (!sequence.is_evidence(place.position + static_cast<std::int64_t>(row))) return;
  const Token draft_token = round.draft_tokens[row];
  const auto weight = [&](const std::optional<std::vector<StatedNumber>>& stated, const Distribution* of_row) {
    if (stated && row < stated->size()) {
      return reals() ? (*stated)[row].real
                     : static_cast<double>((*stated)[row].integer) / static_cast<double>(header_.total);
    }
    return of_row == nullptr
               ? -1.0
               : static_cast<double>(of_row->weight(draft_token)) / static_cast<double>(Distribution::total);
  };
  const double p = weight(round.p_draft, known.distribution());
  double q = weight(round.q_draft, row < round.q_rows.size() ? &round.q_rows[row] : nullptr);
  if (q < 0 && row < round.q_reals.size()) q = round.q_reals[row].weight(draft_token);
  const bool accepted = round.accepts(row);
  const bool computed = header_.draws_follow_from_seed() && round.accept_u;  // needs no bet
  if (p < 0 || q < 0 || computed) {
    if (!computed) acceptance_stated_.add(false, place.line);
    games_.unknown_acceptance(accepted);
    return;
  }
  acceptance_stated_.add(true, place.line);
  if (p == 0 || q <= p) return;
  games_.acceptance(p / q, accepted, reals() ? 8 * header_.unit : 0);
}

/// Returns the most slack of a row that is not stated and would be bet on.
double Evidence::unknown_slack() const { return reals() || target_.slack > 0 ? slack_max : 0; }

/// `within_rounding`: the most likely it can be that such a coin lies where rounding decides.
void Evidence::forfeit_coin(Stream stream, double within_rounding, const TracePlace& place) {
  coins_of(stream).add(false, place.line);
  games_.unknown_coin(stream);
  if (reals()) games_.unknown_within_rounding(stream, within_rounding);
}

void Evidence::forfeit_unstated_coins(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                                      const KnownRow& known, const TracePlace& place) {
  const bool matching = sequence.rule() == AcceptanceRule::matching;
  if (!matching && sequence.rule() != AcceptanceRule::rejection) return;
  if (header_.draws_follow_from_seed()) return;
  if (!sequence.is_evidence(place.position + static_cast<std::int64_t>(row))) return;
  const auto accepted = static_cast<std::size_t>(round.accepted);
  const auto count = [&](Stream stream, bool stated, bool none_drawn, double within_rounding) {
    if (stated) coins_of(stream).add(true, place.line);
    else if (!none_drawn) forfeit_coin(stream, within_rounding, place);
  };

  if (!matching && round.verifies(row)) {
    const bool weights = round.p_draft && round.q_draft;
    const auto value = [&](const StatedNumber& n) { return reals() ? n.real : static_cast<double>(n.integer); };
    const double p = weights ? value((*round.p_draft)[row]) : 0;
    const double q = weights ? value((*round.q_draft)[row]) : 0;
    // Coins so near to p / q are at most this likely, whatever p and q are.
    const double near = std::min(1.0, 16 * header_.unit);
    count(Stream::accept, weights && round.accept_u && (*round.accept_u)[row], weights && (p >= q || p == 0), near);
  }
  const bool has_row = row < round.p_reals.size();
  const bool point = (known.p && known.p->is_point()) || (has_row && round.p_reals[row].tokens.size() == 1);
  if (matching && row < accepted) {
    const bool stated = round.accept_u && (*round.accept_u)[row] && (reals() || (round.p_draft && round.p_before));
    count(Stream::target, stated, point, 1);
  } else if (row == accepted || (!matching && !round.accepts(row))) {
    const bool residual = !matching && round.verifies(row);
    const bool rows = has_row && (!residual || row < round.q_reals.size());
    const bool one_left =
        rows && residual && RealWeights(round.p_reals[row], round.q_reals[row], header_.unit).is_point();
    const std::optional<Draw> draw = round.draw_at(row);
    const std::optional<std::optional<double>> u = round.draw_u_at(row);
    const bool stated = draw ? draw->u.has_value() : u && *u;
    const bool all = draw && draw->weight == draw->bound;
    count(Stream::target, stated, point || one_left || all, 1);
    if (stated && reals() && !rows) games_.unknown_within_rounding(Stream::target, 1);
  }
}

void Evidence::forfeit_all(const OpenSequence& sequence, std::int64_t position, std::int64_t draft_tokens,
                           const TracePlace& place) {
  if (!sequence.is_evidence(position)) return;
  const AcceptanceRule rule = sequence.rule();
  const bool rejection = rule == AcceptanceRule::rejection;
  const bool drafts = (rejection || rule == AcceptanceRule::block) && sequence.declared.max_draft_tokens != 0;
  const bool coins = !header_.draws_follow_from_seed();
  for (std::int64_t i = 0; drafts && i < draft_tokens; ++i) {
    q_stated_.add(false, place.line);
    games_.unknown_draft_token(reals() ? 1 : 0);
    if (coins) forfeit_coin(Stream::draft, 1, place);
  }
  if (sequence.greedy()) return;
  if (rejection && drafts) {
    acceptance_stated_.add(false, place.line);
    games_.unknown_acceptance(std::nullopt);
    if (coins) forfeit_coin(Stream::accept, 1, place);
  }
  if (coins && (rejection || rule == AcceptanceRule::matching)) forfeit_coin(Stream::target, 1, place);
}

void Evidence::forfeit_last_round(OpenSequence& sequence, const EndEvent& end, const TracePlace& place) {
  sequence.decided_end = place.position + 1;
  const SequenceEvent& declared = sequence.declared;
  const bool is_known = end.reason == Finish::stop && declared.hides_stop_tokens() && !declared.stop_strings;
  if (is_known && (sequence.stop_hidden || sequence.cut)) return;  // that round is stated
  // Draft tokens behind the first one were not verified, except in a block.
  constexpr std::int64_t drafted_max = 64;
  const bool together = sequence.rule() == AcceptanceRule::block;
  forfeit_all(sequence, place.position, together ? declared.max_draft_tokens.value_or(drafted_max) : 1, place);
  if (is_known || sequence.greedy() || !sequence.fresh(place.position)) return;
  games_of(sequence.rule()).unknown_token(unknown_slack());
}

void Evidence::finish(const Findings& findings) {
  Examined& examined = report_.examined;
  for (const RareEvents& of_stream : games_.rounding()) {
    examined.reals += of_stream.observed();
    examined.in_band += of_stream.happened();
    examined.band_mass += of_stream.expected();
  }
  if (examined.reals > 0) {
    findings.expect(
        !games_.too_many_within_rounding(), "band",
        [&] { return "about " + std::to_string(examined.band_mass) + " decisions lie within rounding"; },
        [&] { return number(std::int64_t{examined.in_band}) + " of them"; });
  }
  if (examined.band_mass * 100 > static_cast<double>(examined.reals)) {
    report_.unproved.insert(
        "rounding leaves more than one decision in a hundred open; "
        "weights of a finer dtype leave fewer open");
  }
  constexpr long supported = 3;  // times the tokens of a control: on more, bets may come to what they did not there
  const long on_tokens = games_.tokens().tokens() + games_.points().observed();
  if (target_.slack_from_tokens > 0 && on_tokens > supported * target_.slack_from_tokens) {
    report_.unproved.insert(fmt::format(
        "the slack rests on {} sampled tokens of the control, which speak for {} tokens and not for {}; give a longer "
        "control",
        target_.slack_from_tokens, supported * target_.slack_from_tokens, on_tokens));
  }
  const GreedyTokens& greedy = report_.greedy;
  if (greedy.open <= 0) return;
  report_.unproved.insert(fmt::format(
      "{} of {} greedy tokens are not the target's best; the furthest lies {:.4g} below it in logits, at position {} "
      "(line {})",
      greedy.not_best, greedy.tokens, greedy.gap, greedy.position, greedy.line));
  // No smaller than the gap when it is rounded to three digits.
  report_.advice =
      fmt::format("--tie {:.3g} admits greedy tokens that far below the target's best", 1.01 * greedy.open);
}

void Evidence::report() {
  const EProcess& tokens = tested().tokens();
  if (tokens.tokens() > 0) {
    report_.token_test = TraceTokenTest{.tokens = tokens.tokens(),
                                        .alpha = Games::alpha_of_one,
                                        .slack = target_.slack,
                                        .e_value = tokens.e_value(),
                                        .alarm = tokens.alarm(),
                                        .of_lossy = &tested() == &of_lossy_,
                                        .smallest_deviation = tokens.smallest_deviation(),
                                        .suspect = tokens.suspect(),
                                        .message = tokens.describe(),
                                        .curve = tested().curve().points()};
  }
  report_.games = games_.others();
  if (loose_ > 0) {
    report_.unread.insert("there is no bet on " + std::to_string(loose_) +
                          " tokens: the slack allows nearly every distribution there");
  }
  name_statements();
  if (!report_.missing.empty()) name_untested_tokens();
}

void Evidence::name_statements() {
  const auto name = [&](const StatedCount& statement, const std::string& what) {
    if (statement.stated() == 0 || statement.missing() == 0) return;
    report_.unread.insert(what + " not stated on " + statement.lines() +
                          ": whether they are may depend on what was decided, so bets on them count as lost there");
  };
  name(q_stated_, "rows of q are");
  name(acceptance_stated_, "p and q of draft tokens are");
  name(coins_of(Stream::accept), "coins of acceptances are");
  name(coins_of(Stream::draft), "coins of draft tokens are");
  name(coins_of(Stream::target), "coins of the target's draws are");
}

void Evidence::name_untested_tokens() {
  const EProcess& tokens = tested().tokens();
  const auto count = [](long many, const std::string& what) { return std::to_string(many) + " " + what; };
  // Where most tokens have one choice, and enough of them, these are the evidence, and the others no more than a gap.
  const bool points_suffice = games_.points_seen() < 1 && 2 * games_.points().observed() >= report_.examined.tokens;
  std::set<std::string>& of_weak_bets = points_suffice ? report_.missing : report_.unproved;
  if (p_stated_.missing() > 0) {
    const std::string where = p_stated_.stated() > 0 ? " (" + p_stated_.lines() + ")" : "";
    report_.unproved.insert("p is not known of " +
                            count(p_stated_.missing(), "tokens" + where +
                                                           ", so a bet on them cannot replace what the "
                                                           "trace does not state") +
                            (target_.vocabulary == 0 ? "; give --target, or field p_rows of every round" : ""));
    if (target_.vocabulary == 0) report_.advice = "--target MODEL, or field p_rows, lets every token be tested";
  } else if (loose_ * 10 > report_.examined.tokens) {
    of_weak_bets.insert(
        "the slack allows nearly every distribution for more than one token in ten; a smaller "
        "slack shows more");
  } else if (not_bet_ > 0) {
    report_.unproved.insert(
        count(not_bet_,
              "tokens were drawn with the random numbers of an earlier sequence, which has the same key: a "
              "bet on them cannot replace what the trace does not state") +
        (key_stated_ ? ""
                     : ". No sequence states rng_key, so all have the default, 0: one stream for all of them. Where "
                       "each has a stream of its own, number them in rng_key; then a stream that is drawn twice is a "
                       "bug that the check can name"));
  } else if (tokens.tokens() > 0 && tokens.smallest_deviation() >= 1) {
    const auto missing = tokens.tokens_until(1);
    of_weak_bets.insert(count(tokens.tokens(), "tokens are too few to show any deviation, however large; ") +
                        (missing ? count(*missing, "more would be enough to show the largest")
                                 : "with so much slack no number of tokens is enough"));
  }
}

}  // namespace draftproof::spectrace
