// SPDX-License-Identifier: MIT
// Log-probabilities that an engine reports to its users: as a distribution to bet on, and held to the rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/math64.h"
#include "oracle/spectrace/replayer.h"

namespace draftproof::spectrace {

bool Replayer::draws_from_softmax(const OpenSequence& sequence) {
  const Sampling& s = sequence.declared.sampling;
  return !sequence.greedy() && s.temperature == 1 && !cuts(s) && !sequence.declared.changes_logits();
}

std::optional<RoundedDistribution> Replayer::distribution_of_top(const OpenSequence& sequence, const RoundEvent& round,
                                                                 std::size_t row) const {
  if (row >= round.top_logprobs.size() || round.top_logprobs[row].tokens.empty()) return std::nullopt;
  if (!sequence.declared.logprobs_after_sampling && !draws_from_softmax(sequence)) return std::nullopt;
  RealRow top;
  double sum = 0;
  for (std::size_t i = 0; i < round.top_logprobs[row].tokens.size(); ++i) {
    const double p = exp64(round.top_logprobs[row].weights[i]);
    if (p <= 0) continue;
    top.tokens.push_back(round.top_logprobs[row].tokens[i]);
    top.weights.push_back(p);
    sum += p;
  }
  const double rounding = 16 * header_.unit;
  if (top.tokens.empty() || sum > 1 + rounding * static_cast<double>(top.tokens.size())) {
    return std::nullopt;  // hold_logprobs reports it
  }
  // Interfaces add the emitted token to the N likeliest ones where it is none of them, and what is used of a list must
  // not depend on the token that is bet on. So fewer than N are used, and equally likely ones together or not at all:
  // whether the last one used has an equal that is left out is then seen in every list. What N is follows from the
  // lists before.
  const std::size_t likeliest = std::min(sequence.top_likeliest.value_or(0), sequence.top_shortest);
  const std::size_t used = std::max(likeliest, std::size_t{1}) - 1;
  while (top.tokens.size() > used) {
    const double least = *std::ranges::min_element(top.weights);
    for (std::size_t i = top.tokens.size(); i-- > 0;) {
      if (top.weights[i] != least) continue;
      sum -= least;
      top.tokens.erase(top.tokens.begin() + static_cast<std::ptrdiff_t>(i));
      top.weights.erase(top.weights.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (1 - sum > rounding) {
    top.tokens.push_back(header_.vocabulary);
    top.weights.push_back(1 - sum);
  }
  RoundedDistribution distribution = rounded_distribution(top.tokens, top.weights, header_.unit);
  distribution.slack += rounding * static_cast<double>(top.tokens.size());
  return distribution;
}

Token Replayer::place_in(const Distribution& top, Token token) const {
  return top.weight(token) > 0 ? token : header_.vocabulary;
}

void Replayer::expect_logprob(Token token, double stated, double own, double slack, double least, const char* to) {
  const double of_own = exp64(own);
  const double rounding = of_own > 0 ? 16 * header_.unit * of_own * std::max(1.0, -own) : 0;
  const double apart = std::fabs(exp64(stated) - of_own);
  if (slack > 0) report_.furthest_logprob = std::max(report_.furthest_logprob.value_or(0), apart);
  expect(
      apart <= slack + rounding + least, "log_probability",
      [&] { return fmt::format("token {} has the log-probability {:.6g} {}", token, own, to); },
      [&] { return fmt::format("{:.6g}", stated); });
}

void Replayer::hold_logprobs(const OpenSequence& sequence, const RoundEvent& round, std::size_t row,
                             const KnownRow& known) {
  const RealRow* const top = row < round.top_logprobs.size() ? &round.top_logprobs[row] : nullptr;
  const bool stated = row < round.logprobs.size();
  if (top == nullptr && !stated) return;
  if (top != nullptr) {
    double sum = 0;
    for (const double log : top->weights) sum += exp64(log);
    expect(
        sum <= 1 + 16 * header_.unit * static_cast<double>(top->weights.size() + 1), "log_probability",
        [] { return std::string("probabilities add up to at most 1"); }, [&] { return std::to_string(sum); });
  }
  bool held = false;
  const auto hold_all = [&](const auto& own_of, double slack, double least, const char* to) {
    held = true;
    if (stated) expect_logprob(round.emitted[row], round.logprobs[row], own_of(round.emitted[row]), slack, least, to);
    for (std::size_t i = 0; top != nullptr && i < top->tokens.size(); ++i) {
      expect_logprob(top->tokens[i], top->weights[i], own_of(top->tokens[i]), slack, least, to);
    }
  };
  constexpr double nothing = 0x1p-60;  // lost in the doubles of this check
  const bool of_row = sequence.declared.logprobs_after_sampling || draws_from_softmax(sequence);
  const bool has_reals = row < round.p_reals.size();
  if (of_row && (has_reals || known.p)) {
    const auto in_row = [&](Token token) {
      return log64(has_reals ? round.p_reals[row].weight(token)
                             : static_cast<double>(known.p->weight(token)) / static_cast<double>(Distribution::total));
    };
    // Rows of another program, which take the place of a target.
    hold_all(in_row, target_.vocabulary == 0 ? target_.slack : 0, least_weight(), "in its row");
  }
  if (!sequence.declared.logprobs_after_sampling && sequence.plain && (!sequence.foreign || target_.slack > 0) &&
      static_cast<std::int64_t>(sequence.text.size()) - sequence.plain->dropped() <= sequence.target->context()) {
    const auto logits = sequence.plain->logits();
    hold_all([&](Token token) { return log_probability(logits, token); }, sequence.foreign ? target_.slack : 0, nothing,
             "by the target");
  }
  if (stated && top != nullptr && std::binary_search(top->tokens.begin(), top->tokens.end(), round.emitted[row])) {
    held = true;
    expect_logprob(round.emitted[row], round.logprobs[row], top->weight(round.emitted[row]), 0, nothing,
                   "in top_logprobs");
  }
  if (!held && stated) unread("logprobs", "there is no row to compare log-probabilities with");
  if (!held && top != nullptr && !distribution_of_top(sequence, round, row)) {
    unread("top_logprobs",
           "there is no row to compare log-probabilities with, and they are not of the distribution that tokens are "
           "drawn from");
  }
}

}  // namespace draftproof::spectrace
