// SPDX-License-Identifier: MIT
#include "oracle/spectrace/replayer.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "kernels/math64.h"
#include "oracle/checks/acceptance_statistics.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {
namespace {

/// From this much slack on a row says too little to bet on it.
constexpr double slack_max = 0.25;

}  // namespace

void Replayer::hold_to_target(Sequence& sequence) {
  const Opening& opening = sequence.opening;
  const bool own_order = !opening.order || is_our_order(*opening.order);
  if (header_.total == Distribution::total && own_order) sequence.target = target_.computing_in(opening.numerics);
  Sampling sampling = opening.sampling;
  if (sequence.greedy()) sampling.temperature = 0;
  if (!sequence.target) {
    sequence.foreign = true;
    const bool granted = target_.slack > 0 || (target_.tie > 0 && sequence.greedy());
    if (granted && target_.computing_anyhow) sequence.target = target_.computing_anyhow();
    const std::string why =
        header_.total == 0 ? "p are reals, and the target's own are integers"
        : header_.total != Distribution::total ? "W is not 2^52, of which the target's own rows are made"
        : !own_order ? "the samplers were applied in an order that is not ours"
        : opening.numerics.empty() ? "the trace does not say in which numerics p were computed (field numerics)"
                                   : "p were computed with the numerics '" + foreign(opening.numerics) +
                                         "', which cannot be had here";
    (granted ? report_.missing : report_.unproved)
        .insert(why + ": they are not held to the target's bits" +
                (granted ? "" : "; tokens are, with --slack") + (!granted && sequence.greedy() ? " or --tie" : ""));
    const Sampling& s = opening.sampling;
    const bool cuts = s.top_k > 0 || (s.top_p > 0 && s.top_p < 1) || s.min_p > 0;
    if (granted && !sequence.greedy() && !opening.order && (cuts || s.penalizes())) {
      report_.assumed.insert("penalties, temperature, top-k, top-p, min-p were applied in this order (field order)");
    }
  }
  if (sequence.target) sequence.plain = std::make_unique<PlainReader>(*sequence.target, sampling);
}

const std::string& Replayer::foreign(const std::string& numerics) {
  if (!foreign_) foreign_ = printable(numerics);
  return *foreign_;
}

bool Replayer::is_our_order(const std::vector<std::string>& order) {
  auto place = our_order().begin();
  for (const std::string& name : order) {
    place = std::find(place, our_order().end(), name);
    if (place == our_order().end()) return false;
  }
  return true;
}

const PlainRow& Replayer::read(Sequence& sequence) {
  const PlainRow& row = sequence.plain->after(sequence.text);
  std::erase(readers_, sequence.plain.get());
  readers_.push_back(sequence.plain.get());
  std::size_t positions = 0;
  for (const PlainReader* const reader : readers_) positions += reader->capacity();
  while (readers_.size() > 1 && positions > static_cast<std::size_t>(sequence.target->context())) {
    positions -= readers_.front()->capacity();
    readers_.front()->forget();
    readers_.erase(readers_.begin());
  }
  return row;
}

KnownRow Replayer::row_after(Sequence& sequence, const Step& step, std::size_t row) {
  KnownRow known;
  if (row < step.target_rows.size()) known.p = step.target_rows[row];
  if (row < step.target_reals.size()) {
    known.reals = rounded_distribution(step.target_reals[row].tokens, step.target_reals[row].weights, header_.unit);
  }
  if (row < std::max(step.target_rows.size(), step.target_reals.size())) expect_declared(sequence, step, row);
  if (sequence.plain) {
    const std::vector<Token>& text = sequence.text;
    const int context = sequence.target->context();
    if (text.size() > static_cast<std::size_t>(context)) {
      expect(
          false, "position", [&] { return "the target has " + number(context) + " positions"; },
          [&] { return number(static_cast<std::int64_t>(text.size())) + " tokens before a row"; });
      return known;
    }
    ++report_.examined.rows;
    const PlainRow& plain = read(sequence);
    const std::string which = "row " + number(static_cast<std::int64_t>(row)) + " of the target";
    if (sequence.foreign) expect_near(which, sequence, known);
    else expect_own(which, step, row, plain, known);
  }
  if (known.p && row < step.targets.size()) {
    const Fingerprint print = known.p->fingerprint();
    expect(
        step.targets[row] == print, "p_row",
        [&] { return "row " + number(static_cast<std::int64_t>(row)) + " of p has the fingerprint " + print.hex(); },
        [&] { return step.targets[row].hex(); });
  }
  return known;
}

void Replayer::expect_own(const std::string& which, const Step& step, std::size_t row, const PlainRow& plain,
                          KnownRow& known) {
  if (row < step.logits.size()) {
    expect(
        step.logits[row] == plain.logits, "p_row", [&] { return which + " has logits " + plain.logits.hex(); },
        [&] { return step.logits[row].hex(); });
  }
  if (known.p) {
    expect(
        *known.p == plain.distribution, "p_row", [&] { return which + " has other weights"; },
        [&] { return "P[" + number(static_cast<std::int64_t>(row)) + "]"; });
  }
  known.p = plain.distribution;
}

void Replayer::expect_near(const std::string& which, Sequence& sequence, KnownRow& known) {
  const Sampling& sampling = sequence.opening.sampling;
  const auto logits = sequence.plain->logits();
  if (sequence.greedy()) {
    known.best.emplace(logits, sampling, sequence.text);
    return;
  }
  known.near = nearby_distribution(logits, sampling, sequence.opening.order.value_or(our_order()), sequence.text, target_.slack);
  if (!known.near) {
    report_.unproved.insert("the order of samplers names one that is not known here, or in a place that is not: "
                            "tokens are not held to the target");
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
        return fmt::format("P is at most {:g} away from {} in total variation", known.near->slack + rounding, which);
      },
      [&] { return fmt::format("{:g}", apart); });
}

void Replayer::expect_declared(const Sequence& sequence, const Step& step, std::size_t row) {
  const Sampling& s = sequence.opening.sampling;
  if (!s.greedy() && s.top_k <= 0 && row >= step.best.size()) return;
  const RealRow* const reals = row < step.target_reals.size() ? &step.target_reals[row] : nullptr;
  RealRow stated;
  if (reals == nullptr) {
    const Distribution& whole = step.target_rows[row];
    stated.tokens = whole.tokens();
    for (const std::uint64_t weight : whole.weights()) stated.weights.push_back(static_cast<double>(weight));
  } else {
    stated = *reals;
  }
  const std::string which = "row " + number(static_cast<std::int64_t>(row)) + " of p ";
  const auto tokens = [&] { return std::to_string(stated.tokens.size()) + " tokens"; };
  std::vector<double> sizes = stated.weights;
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  const double fine = 1 + 4 * header_.unit;  // within rounding they are equal
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
  if (row >= step.best.size() || s.penalizes()) return;
  const Best& best = step.best[row];
  const auto is_of_size = [&](Token token, double size) { return stated.weight(token) * fine >= size; };
  expect(
      is_of_size(best.first, sizes[0]) && (sizes.size() < 2 || is_of_size(best.second, sizes[1])), "declared",
      [&] { return which + "has its likeliest tokens first in top"; },
      [&] { return "tokens " + number(best.first) + ", " + number(best.second); });
}

void Replayer::bet(Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known,
                   const DistributionAt& q) {
  const Token token = step.emitted[row];
  const std::int64_t position = position_ + static_cast<std::int64_t>(row);
  if (known.best) return judge_greedy(*known.best, token, position);
  std::optional<RoundedDistribution> of_top;
  DistributionAt distribution;
  // Of greedy tokens a row that is no point is not their law.
  const auto is_distribution = [&](const Distribution& p) { return rule_ != Judging::greedy || p.is_point(); };
  if (known.p && is_distribution(*known.p)) distribution.p = &*known.p;
  else if (known.reals && is_distribution(known.reals->distribution)) distribution = {&known.reals->distribution, known.reals->slack};
  else if (known.near) distribution = {&known.near->p, known.near->slack};
  else if ((of_top = distribution_of_top(sequence, step, row))) distribution = {&of_top->distribution, of_top->slack};
  if (distribution.p == nullptr) {
    ++unknown_;
    return;
  }
  const bool stated = !known.near || distribution.p != &known.near->p;
  // Rows of another program, which stand in for a target.
  const bool of_reference = stated && target_.vocabulary == 0 && target_.slack > 0;
  if (of_reference) distribution.slack += target_.slack;
  // A token that was judged against a draft token is off by the rounding of q, too (oracle/sequential/rounded_distribution.h).
  if (known.reals && row < step.draft_tokens.size()) distribution.slack += (q.p ? q.slack : known.reals->slack) + 4 * header_.unit;
  const Token said = of_top ? place_in(of_top->distribution, token) : token;
  if (!of_reference && rule_ != Judging::lossy && report_.findings.size() == found_before_) {
    expect(
        stated ? distribution.p->weight(said) > 0 : known.near->allows(said), "distribution",
        [&] {
          return stated ? "p at position " + number(position) + " has nothing for token " + number(token)
                        : fmt::format("at position {} no law within {:g} of the target's says token {}", position,
                                      target_.slack, token);
        },
        [&] { return "token " + number(token); });
  }
  if (distribution.p->is_point() && stated && !of_reference) return;
  if (distribution.slack >= slack_max) {
    ++loose_;
  } else if (!fresh(sequence, position)) {
    ++not_bet_;
  } else if (distribution.p->is_point()) {
    evidence_.token_of_a_point(distribution.slack, distribution.p->weight(said) == 0);
  } else {
    // Where a draft token is drawn with the number that draws the token, whether it is made at all may hang on that number;
    // so a q that is there is no news from before the token.
    const Distribution* const before = rule_ == Judging::matching ? nullptr : q.p;
    Evidence& evidence = rule_ == Judging::lossy ? of_lossy_ : evidence_;
    evidence.token(*distribution.p, distribution.slack, before, said, sequence.text, sequence.rejected);
  }
}

void Replayer::judge_greedy(const BestToken& best, Token token, std::int64_t position) {
  GreedyTokens& greedy = report_.greedy;
  ++greedy.tokens;
  const double gap = best.gap(token);
  const double apart = best.apart(token);
  const bool tie = gap <= target_.tie || apart <= 2 * target_.slack;
  if (token != best.token()) {
    ++greedy.not_best;
    greedy.gap = std::max(greedy.gap, gap);
    greedy.apart = std::max(greedy.apart, apart);
  }
  expect(
      tie || rule_ == Judging::lossy, "best",
      [&] {
        return fmt::format("at position {} the target's best token is {}", position, best.token());
      },
      [&] {
        return fmt::format("token {}, {:.4g} below it in logits, {:.4g} in probability: no near tie", token, gap,
                           apart);
      });
}

std::optional<RoundedDistribution> Replayer::distribution_of_top(const Sequence& sequence, const Step& step, std::size_t row) const {
  if (row >= step.top_logprobs.size() || step.top_logprobs[row].tokens.empty()) return std::nullopt;
  const Sampling& s = sequence.opening.sampling;
  const bool is_distribution = sequence.opening.logprobs_after_sampling ||
                      (s.temperature == 1 && s.top_k <= 0 && !(s.top_p > 0 && s.top_p < 1) && s.min_p <= 0 &&
                       !s.penalizes());
  if (!is_distribution) return std::nullopt;
  RealRow row_of_top;
  double sum = 0;
  for (std::size_t i = 0; i < step.top_logprobs[row].tokens.size(); ++i) {
    const double p = exp64(step.top_logprobs[row].weights[i]);
    if (p <= 0) continue;
    row_of_top.tokens.push_back(step.top_logprobs[row].tokens[i]);
    row_of_top.weights.push_back(p);
    sum += p;
  }
  const double rounding = 16 * header_.unit;
  if (row_of_top.tokens.empty() || sum > 1 + rounding * static_cast<double>(row_of_top.tokens.size())) {
    return std::nullopt;  // hold_logprobs says so
  }
  if (1 - sum > rounding) {
    row_of_top.tokens.push_back(header_.vocabulary);
    row_of_top.weights.push_back(1 - sum);
  }
  RoundedDistribution distribution = rounded_distribution(row_of_top.tokens, row_of_top.weights, header_.unit);
  distribution.slack += rounding * static_cast<double>(row_of_top.tokens.size());
  return distribution;
}

Token Replayer::place_in(const Distribution& top, Token token) const {
  return top.weight(token) > 0 ? token : header_.vocabulary;
}

void Replayer::hold_logprobs(const Sequence& sequence, const Step& step, std::size_t row, const KnownRow& known) {
  const RealRow* const top = row < step.top_logprobs.size() ? &step.top_logprobs[row] : nullptr;
  const bool told = row < step.logprobs.size();
  if (top == nullptr && !told) return;
  const double unit = 16 * header_.unit;
  if (top != nullptr) {
    double sum = 0;
    for (const double log : top->weights) sum += exp64(log);
    expect(
        sum <= 1 + unit * static_cast<double>(top->weights.size() + 1), "log_probability",
        [] { return std::string("probabilities add up to at most 1"); }, [&] { return std::to_string(sum); });
  }
  const auto hold = [&](Token token, double log, double own, double slack, const char* to) {
    const double apart = std::fabs(exp64(log) - exp64(own));
    if (slack > 0) report_.furthest_logprob = std::max(report_.furthest_logprob.value_or(0), apart);
    expect(
        apart <= slack + unit * exp64(own) * std::max(1.0, -own) + 0x1p-60, "log_probability",
        [&] { return fmt::format("token {} has the log-probability {:.6g} {}", token, own, to); },
        [&] { return fmt::format("{:.6g}", log); });
  };
  bool held = false;
  const auto hold_all = [&](const auto& own_of, double slack, const char* to) {
    held = true;
    if (told) hold(step.emitted[row], step.logprobs[row], own_of(step.emitted[row]), slack, to);
    for (std::size_t i = 0; top != nullptr && i < top->tokens.size(); ++i) {
      hold(top->tokens[i], top->weights[i], own_of(top->tokens[i]), slack, to);
    }
  };
  const Distribution* const distribution = known.p ? &*known.p : known.reals ? &known.reals->distribution : nullptr;
  if (sequence.opening.logprobs_after_sampling && distribution != nullptr) {
    const auto of_distribution = [&](Token token) {
      return log64(static_cast<double>(distribution->weight(token)) / static_cast<double>(Distribution::total));
    };
    hold_all(of_distribution, 0, "in its row");
  } else if (!sequence.opening.logprobs_after_sampling && sequence.plain &&
             sequence.text.size() <= static_cast<std::size_t>(sequence.target->context())) {
    const auto logits = sequence.plain->logits();
    hold_all([&](Token token) { return log_probability(logits, token); }, sequence.foreign ? target_.slack : 0,
             "by the target");
  }
  if (told && top != nullptr && std::binary_search(top->tokens.begin(), top->tokens.end(), step.emitted[row])) {
    held = true;
    hold(step.emitted[row], step.logprobs[row], top->weight(step.emitted[row]), 0, "in top_lp");
  }
  if (!held && told) unread("lp", "there is no row to hold log-probabilities to");
  if (!held && top != nullptr && !distribution_of_top(sequence, step, row)) {
    unread("top_lp", "there is no row to hold log-probabilities to, and they are not of the law tokens are drawn from");
  }
}

std::optional<Token> Replayer::token_of(const Distribution& p, const Sequence& sequence, std::int64_t position) {
  if (p.is_point()) return p.tokens().front();
  if (rule_ != Judging::matching || !header_.coins_follow()) return std::nullopt;
  const Key key{sequence.opening.key, static_cast<std::int32_t>(position), Purpose::target};
  return Weights(p).at(below(key, Distribution::total)).token;
}

}  // namespace draftproof::spectrace
