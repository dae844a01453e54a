// SPDX-License-Identifier: MIT
// Rows of the target: the row after a text, and the tokens that must come from it.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "kernels/math64.h"
#include "oracle/checks/acceptance_statistics.h"
#include "oracle/spectrace/replayer.h"
#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

/// Returns the distribution of a token that is none of these, and how much of it these have; nothing where they have
/// all.
std::optional<Distribution> without(const Distribution& p, const std::vector<Token>& left_out, double& share) {
  std::vector<Token> tokens = p.tokens();
  std::vector<std::uint64_t> weights = p.weights();
  std::uint64_t out = 0;
  for (std::size_t i = tokens.size(); i-- > 0;) {
    if (std::find(left_out.begin(), left_out.end(), tokens[i]) == left_out.end()) continue;
    out += weights[i];
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i));
    weights.erase(weights.begin() + static_cast<std::ptrdiff_t>(i));
  }
  share = static_cast<double>(out) / static_cast<double>(Distribution::total);
  if (tokens.empty()) return std::nullopt;
  std::uint64_t left = Distribution::total;
  for (std::uint64_t& weight : weights) {
    weight = std::max(static_cast<std::uint64_t>(static_cast<double>(weight) / (1 - share)), std::uint64_t{1});
    left -= weight;
  }
  *std::max_element(weights.begin(), weights.end()) += left;  // modulo 2^64 where it is negative
  return Distribution::exact(tokens, weights);
}

/// How many tokens of a list in top_logprobs are among the likeliest for certain: all, but for the emitted one where it
/// may have been added to them, because none is less likely.
std::size_t likeliest_in(const RealRow& list, Token emitted) {
  const auto place = std::ranges::find(list.tokens, emitted);
  if (place == list.tokens.end()) return list.tokens.size();
  const double least = *std::ranges::min_element(list.weights);
  const bool added = list.weights[static_cast<std::size_t>(place - list.tokens.begin())] == least;
  return list.tokens.size() - (added ? 1 : 0);
}

}  // namespace

void Replayer::name_adjustments(const SequenceEvent& declared) {
  for (const std::string& name : declared.adjustments) {
    report_.missing.insert("'" + printable(name) +
                           "' changes the logits (field adjustments): p is taken as the trace states it");
  }
}

std::unique_ptr<ConstraintReader> Replayer::constraint_of(const SequenceEvent& declared) const {
  if (declared.grammar.empty()) return nullptr;
  if (!target_.constraint) throw Error("the target has no tokenizer");
  return target_.constraint(declared.grammar, declared.stop_tokens.value_or(std::vector<Token>()))->reader();
}

void Replayer::hold_to_target(OpenSequence& sequence) {
  const SequenceEvent& declared = sequence.declared;
  if (!declared.adjustments.empty()) return;
  std::unique_ptr<ConstraintReader> constraint;
  try {
    constraint = constraint_of(declared);
  } catch (const Error& wrong) {
    report_.missing.insert("the grammar cannot be read here, so p is taken as the trace states it: " +
                           printable(wrong.what()));
    return;
  }
  const bool own_order = is_our_order(declared);
  if (header_.total == Distribution::total && own_order) sequence.target = target_.computing_in(declared.numerics);
  Sampling sampling = declared.sampling;
  if (sequence.greedy()) sampling.temperature = 0;
  if (!sequence.target) {
    sequence.foreign = true;
    const bool compared = target_.computing_anyhow && (target_.slack > 0 || sequence.greedy());
    if (compared) sequence.target = target_.computing_anyhow();
    name_missing_target(sequence, compared, own_order);
  }
  if (!sequence.target) return;
  const std::size_t from = declared.prompt.size() - static_cast<std::size_t>(declared.constrained_prompt);
  sequence.plain = std::make_unique<PlainReader>(*sequence.target, sampling, std::move(constraint), from,
                                                 declared.stop_tokens.value_or(std::vector<Token>()));
}

void Replayer::name_missing_target(OpenSequence& sequence, bool compared, bool own_order) {
  const SequenceEvent& declared = sequence.declared;
  const std::string why =
      header_.total == 0                     ? "p are reals, and the target's own are integers"
      : header_.total != Distribution::total ? "total_weight is not 2^52, the sum of the target's own rows"
      : !own_order                           ? "the samplers were applied in an order that is not ours"
      : declared.numerics.empty() ? "the trace does not state in which numerics p were computed (field numerics)"
                                 : "p were computed with the numerics '" + foreign(declared.numerics) +
                                       "', which are not available here";
  (compared ? report_.missing : report_.unproved)
      .insert(why + ": they are not held to the target's bits" + (compared ? "" : "; tokens are, with --slack"));
  if (!compared) report_.advice = "--slack TV holds tokens to a target of other numerics";
  const Sampling& s = declared.sampling;
  if (compared && !sequence.greedy() && !declared.sampler_order && (cuts(s) || s.penalizes())) {
    report_.assumed.insert(
        "penalties, temperature, top-k, top-p, min-p were applied in this order (field sampler_order)");
  }
}

const std::string& Replayer::foreign(const std::string& numerics) {
  if (!foreign_) foreign_ = printable(numerics);
  return *foreign_;
}

bool Replayer::is_our_order(const SequenceEvent& declared) {
  if (!declared.sampler_order) return true;
  return !unknown_sampler(*declared.sampler_order) &&
         samplers_in_effect(*declared.sampler_order, declared.sampling) ==
             samplers_in_effect(our_order(), declared.sampling);
}

const PlainRow& Replayer::read(OpenSequence& sequence) {
  const PlainRow& row = sequence.plain->after(sequence.text);
  std::erase(readers_, sequence.plain.get());
  readers_.push_back(sequence.plain.get());
  std::size_t positions = 0;
  for (const PlainReader* const reader : readers_) positions += reader->capacity();
  while (readers_.size() > 1 && positions > static_cast<std::size_t>(sequence.target->context())) {
    positions -= readers_.front()->capacity();
    readers_.front()->release();
    readers_.erase(readers_.begin());
  }
  return row;
}

KnownRow Replayer::row_after(OpenSequence& sequence, const RoundEvent& round, std::size_t row) {
  KnownRow known;
  if (row < round.p_rows.size()) known.p = round.p_rows[row];
  if (row < round.p_reals.size()) {
    known.reals = rounded_distribution(round.p_reals[row].tokens, round.p_reals[row].weights, header_.unit);
  }
  if (row < std::max(round.p_rows.size(), round.p_reals.size())) expect_declared(sequence, round, row);
  // A row behind the end of a text decides nothing, and no grammar says what follows there.
  const bool behind_end = !sequence.declared.grammar.empty() && row >= round.emitted.size();
  if (sequence.plain && !behind_end) {
    const std::vector<Token>& text = sequence.text;
    const int context = sequence.target->context();
    const std::int64_t positions = static_cast<std::int64_t>(text.size()) - sequence.plain->dropped();
    if (positions > context) {
      expect(
          false, "position", [&] { return "the target has " + number(context) + " positions"; },
          [&] { return number(positions) + " tokens before a row"; });
      return known;
    }
    ++report_.examined.rows;
    const PlainRow& plain = read(sequence);
    const std::string which = "row " + number(static_cast<std::int64_t>(row)) + " of the target";
    if (sequence.foreign) expect_near(which, sequence, known);
    else expect_own(which, round, row, plain, known);
  }
  if (known.p && row < round.p_digests.size()) {
    const Fingerprint digest = known.p->fingerprint();
    expect(
        round.p_digests[row] == digest, "p_row",
        [&] { return "row " + number(static_cast<std::int64_t>(row)) + " of p has the digest " + digest.hex(); },
        [&] { return round.p_digests[row].hex(); });
  }
  return known;
}

void Replayer::expect_own(const std::string& which, const RoundEvent& round, std::size_t row, const PlainRow& plain,
                          KnownRow& known) {
  if (row < round.logits_digests.size()) {
    expect(
        round.logits_digests[row] == plain.logits, "p_row", [&] { return which + " has logits " + plain.logits.hex(); },
        [&] { return round.logits_digests[row].hex(); });
  }
  if (known.p) {
    expect(
        *known.p == plain.distribution, "p_row", [&] { return which + " has other weights"; },
        [&] { return "p_rows[" + number(static_cast<std::int64_t>(row)) + "]"; });
  }
  known.p = plain.distribution;
}

void Replayer::expect_near(const std::string& which, OpenSequence& sequence, KnownRow& known) {
  const Sampling& sampling = sequence.declared.sampling;
  const auto logits = sequence.plain->logits();
  if (sequence.greedy()) {
    known.best.emplace(logits, sampling, sequence.text, sequence.plain->allowed());
    return;
  }
  known.near = nearby_distribution(logits, sampling, sequence.declared.sampler_order.value_or(our_order()),
                                   sequence.text, target_.slack, sequence.plain->allowed());
  if (!known.near) {
    const auto& order = sequence.declared.sampler_order;
    const auto unknown = order ? unknown_sampler(*order) : std::nullopt;
    report_.unproved.insert((unknown ? "sampler_order names '" + printable(*unknown) + "', which is not known here"
                                     : std::string("penalties come after a cut, where their effect is not known")) +
                            ": tokens are not held to the target");
    return;
  }
  if (!known.p && !known.reals) return;
  const double rounding = known.reals ? known.reals->slack : 0;
  const double apart = static_cast<double>(Distribution::total - overlap(known.p ? *known.p : known.reals->distribution,
                                                                         known.near->p)) /
                       static_cast<double>(Distribution::total);
  report_.furthest_row = std::max(report_.furthest_row.value_or(0), apart);
  expect(
      apart <= known.near->slack + rounding, "p_row",
      [&] {
        return fmt::format("the stated row is at most {:g} away from {} in total variation",
                           known.near->slack + rounding, which);
      },
      [&] { return fmt::format("{:g}", apart); });
}

void Replayer::expect_declared(const OpenSequence& sequence, const RoundEvent& round, std::size_t row) {
  const Sampling& s = sequence.declared.sampling;
  if (!s.greedy() && s.top_k <= 0 && row >= round.top_logits.size()) return;
  const RealRow* const reals = row < round.p_reals.size() ? &round.p_reals[row] : nullptr;
  RealRow stated;
  if (reals == nullptr) {
    const Distribution& whole = round.p_rows[row];
    stated.tokens = whole.tokens();
    for (const std::uint64_t weight : whole.weights()) stated.weights.push_back(static_cast<double>(weight));
  } else {
    stated = *reals;
  }
  const std::string which = "row " + number(static_cast<std::int64_t>(row)) + " of p ";
  const auto tokens = [&] { return std::to_string(stated.tokens.size()) + " tokens"; };
  std::vector<double> sizes = stated.weights;
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  const double fine = 1 + 4 * header_.unit;  // weights closer than this are equal within rounding
  if (s.greedy()) {
    expect(
        sizes.size() == 1, "declared", [&] { return which + "has one token, as the temperature is 0"; }, tokens);
  } else if (s.top_k > 0) {
    const double last = sizes.back() * fine;
    const auto above = std::count_if(sizes.begin(), sizes.end(), [&](double size) { return size > last; });
    expect(
        sizes.size() <= static_cast<std::size_t>(s.top_k) || above < s.top_k, "declared",
        [&] { return which + "has at most " + number(s.top_k) + " tokens, and others only as likely as the last"; },
        tokens);
  }
  if (row >= round.top_logits.size() || sequence.declared.changes_logits()) return;
  const TopTwo& best = round.top_logits[row];
  const auto is_of_size = [&](Token token, double size) { return stated.weight(token) * fine >= size; };
  const bool ordered = expect(
      is_of_size(best.first, sizes[0]) && (sizes.size() < 2 || is_of_size(best.second, sizes[1])), "declared",
      [&] { return which + "has its likeliest tokens first in top_logits"; },
      [&] { return "tokens " + number(best.first) + ", " + number(best.second); });
  if (!ordered) return;
  const double total = reals == nullptr ? static_cast<double>(Distribution::total) : 1;
  expect_ratio(which, sequence, best, stated.weight(best.first) / total, stated.weight(best.second) / total);
}

void Replayer::expect_ratio(const std::string& which, const OpenSequence& sequence, const TopTwo& best, double first,
                            double second) {
  const Sampling& s = sequence.declared.sampling;
  const bool of_reference = target_.vocabulary == 0 && target_.slack > 0;  // then the logits are another program's
  const bool cut = second == 0 && cuts(s);
  if (sequence.greedy() || rule_ == AcceptanceRule::lossy || of_reference || cut) return;
  if (sequence.declared.sampler_order && unknown_sampler(*sequence.declared.sampler_order)) return;
  const double ratio = exp64((best.second_logit - best.first_logit) / s.temperature);
  // Each logit may have been rounded, at most by half a unit of itself, before and after it was divided.
  const double rounding =
      header_.unit * (8 + 2 * (std::fabs(best.first_logit) + std::fabs(best.second_logit)) / s.temperature);
  const double lost = least_weight();
  expect(
      second + lost >= first * ratio * exp64(-rounding) && second - lost <= first * ratio * exp64(rounding), "declared",
      [&] {
        return fmt::format("{}has {:.6g} of the weight of token {} for token {}, by their logits and the temperature",
                           which, ratio, best.first, best.second);
      },
      [&] { return fmt::format("{:.6g}", second / first); });
}

void Replayer::bet(OpenSequence& sequence, const RoundEvent& round, std::size_t row, const KnownRow& known,
                   const DistributionAt& q) {
  const Token token = round.emitted[row];
  const std::int64_t position = position_ + static_cast<std::int64_t>(row);
  if (known.best) return check_greedy_token(sequence, *known.best, token, position);
  const std::optional<RoundedDistribution> top = distribution_of_top(sequence, round, row);
  if (row < round.top_logprobs.size()) {
    const RealRow& list = round.top_logprobs[row];
    const std::size_t listed = list.tokens.size();
    sequence.top_shortest = sequence.top_likeliest ? std::min(sequence.top_shortest, listed) : listed;
    sequence.top_likeliest = std::max(sequence.top_likeliest.value_or(0), likeliest_in(list, token));
  }
  DistributionAt distribution = basis_of(sequence, known, top);
  p_stated_.add(distribution.p != nullptr, line_);
  if (distribution.p == nullptr) {
    if (!sequence.greedy() && fresh(sequence, position)) evidence_of(rule_).unknown_token(unknown_slack());
    return;
  }
  const RoundedDistribution* const of_top = top && distribution.p == &top->distribution ? &*top : nullptr;
  const bool stated = !known.near || distribution.p != &known.near->p;
  // Rows of another program, which take the place of a target.
  const bool of_reference = stated && target_.vocabulary == 0 && target_.slack > 0;
  if (of_reference) distribution.slack += target_.slack;
  // A token that was compared with a draft token also carries the rounding of q
  // (oracle/sequential/rounded_distribution.h).
  if (known.reals && row < round.draft_tokens.size()) {
    distribution.slack += (q.p ? q.slack : known.reals->slack) + 4 * header_.unit;
  }
  const Token outcome = of_top ? place_in(of_top->distribution, token) : token;
  if (!of_reference && rule_ != AcceptanceRule::lossy && report_.findings.size() == found_before_) {
    expect(
        stated ? distribution.p->weight(outcome) > 0 : known.near->allows(outcome), "distribution",
        [&] {
          return stated ? "p at position " + number(position) + " has no weight for token " + number(token)
                        : fmt::format("at position {} no distribution within {:g} of the target's allows token {}",
                                      position, target_.slack, token);
        },
        [&] { return "token " + number(token); });
  }
  std::optional<Distribution> no_stop;
  if (sequence.declared.hides_stop_tokens() && !distribution.p->is_point()) {
    // A stop token would not be seen: this one was drawn from p, given that it is none.
    const std::vector<Token>& stops = *sequence.declared.stop_tokens;
    double share = 0;
    no_stop = without(*distribution.p, stops, share);
    if (!no_stop) return;
    // Of top_logprobs, any of the tokens that are not listed may be a stop token.
    const double hidden = of_top ? static_cast<double>(no_stop->weight(header_.vocabulary)) : 0;
    const double apart = 2 * distribution.slack / (1 - share) + hidden / static_cast<double>(Distribution::total);
    distribution = {&*no_stop, std::min(1.0, apart)};
  }
  if (distribution.p->is_point() && stated && !of_reference) return;
  if (distribution.slack >= slack_max) {
    ++loose_;
  } else if (!fresh(sequence, position)) {
    ++not_bet_;
  } else if (distribution.p->is_point()) {
    evidence_.token_of_a_point(distribution.slack, distribution.p->weight(outcome) == 0);
  } else {
    // Under matching one number may draw both the draft token and the token, and whether there is a draft token may
    // depend on that number. So q is not known before the token and must not be used.
    const bool with_q = rule_ != AcceptanceRule::matching && sequence.declared.max_draft_tokens != 0;
    const bool drafted = !round.has_draft_tokens || row < round.draft_tokens.size();
    evidence_of(rule_).token(*distribution.p, distribution.slack, with_q ? q.p : nullptr, with_q && drafted, outcome,
                             sequence.text, sequence.rejected, sequence.rejected_unknown);
  }
}

DistributionAt Replayer::basis_of(const OpenSequence& sequence, const KnownRow& known,
                                  const std::optional<RoundedDistribution>& of_top) {
  // A row of several tokens is not the distribution of greedy tokens.
  const auto distribution_at = [&](const Distribution& p, double slack) {
    return rule_ != AcceptanceRule::greedy || p.is_point() ? DistributionAt{&p, slack} : DistributionAt{};
  };
  DistributionAt row;
  DistributionAt top;
  if (known.p) row = distribution_at(*known.p, 0);
  if (known.reals && row.p == nullptr) row = distribution_at(known.reals->distribution, known.reals->slack);
  if (of_top) top = distribution_at(of_top->distribution, of_top->slack);
  if (sequence.plain && !sequence.foreign) return row;  // the target's own, whatever the trace states
  if (basis_ == Basis::none) {
    basis_ = known.near ? Basis::target : row.p ? Basis::rows : top.p ? Basis::top : Basis::none;
  }
  DistributionAt chosen = basis_ == Basis::rows ? row : basis_ == Basis::top ? top : DistributionAt{};
  if (basis_ == Basis::target && known.near) chosen = {&known.near->p, known.near->slack};
  if (chosen.p == nullptr) basis_ = Basis::none;  // another one from the next token on
  return chosen;
}

void Replayer::check_greedy_token(const OpenSequence& sequence, const BestToken& best, Token token,
                                  std::int64_t position) {
  GreedyTokens& greedy = report_.greedy;
  ++greedy.tokens;
  const double gap = best.gap(token);
  const double apart = best.apart(token);
  if (token != best.token()) {
    ++greedy.not_best;
    greedy.apart = std::max(greedy.apart, apart);
    if (gap > greedy.gap || greedy.line == 0) {
      greedy.gap = gap;
      greedy.line = line_;
      greedy.position = position;
    }
  }
  if (rule_ == AcceptanceRule::lossy) return;
  const bool granted = target_.tie > 0 || target_.slack > 0;
  const bool tie = gap <= target_.tie || apart <= 2 * target_.slack;
  // Engines count differently what penalties punish, so their effect on a token may be more than numerics.
  const bool penalized = sequence.declared.sampling.penalizes() && std::isfinite(gap);
  const bool open = !tie && !granted && (gap < best.gap_beyond_numerics() || penalized);
  if (open) greedy.open = std::max(greedy.open, gap);
  expect(
      tie || open, "best",
      [&] { return fmt::format("at position {} the target's best token is {}", position, best.token()); },
      [&] {
        return fmt::format("token {}, {:.4g} below it in logits, {:.4g} in probability: {}", token, gap, apart,
                           granted ? "no near tie" : "more than numerics explain");
      });
}

std::optional<Token> Replayer::token_of(const Distribution& p, const OpenSequence& sequence, std::int64_t position) {
  if (p.is_point()) return p.tokens().front();
  if (rule_ != AcceptanceRule::matching || !header_.draws_follow_from_seed()) return std::nullopt;
  const Key key{sequence.declared.rng_key, static_cast<std::int32_t>(position), Purpose::target};
  return Weights(p).at(below(key, Distribution::total)).token;
}

}  // namespace draftproof::spectrace
