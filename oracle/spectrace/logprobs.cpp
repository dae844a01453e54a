// SPDX-License-Identifier: MIT
#include "oracle/spectrace/logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/math64.h"
#include "oracle/plain/plain.h"

namespace draftproof::spectrace {
namespace {

constexpr double nothing = 0x1p-60;  // lost in the doubles of these checks

/// What a log-probability is compared with.
struct Comparand {
  double slack = 0;
  double min = nothing;  // what a probability may lack, besides rounding in proportion to it
  const char* to = "";
};

/// What a log-probability is where nothing is rounded; nothing where that is not known. Empty: it is never.
using ExactLogprob = std::function<std::optional<double>(Token)>;

void expect_logprob(const ReplayedRound& r, Token token, double stated, double own, const Comparand& with,
                    const ExactLogprob& exact_of) {
  const auto apart_from = [&](double log) { return std::fabs(exp64(stated) - exp64(log)); };
  const auto allowed_from = [&](double log) {
    const double p = exp64(log);
    return with.slack + with.min + (p > 0 ? 16 * r.header.unit * p * std::max(1.0, -log) : 0);
  };
  const double apart = apart_from(own);
  const auto within_error = [&] {  // it may be the reference that is off
    const std::optional<double> exact = exact_of ? exact_of(token) : std::nullopt;
    return exact && apart_from(*exact) <= allowed_from(*exact);
  };
  if (with.slack > 0) r.report.furthest_logprob = std::max(r.report.furthest_logprob.value_or(0), apart);
  r.findings.expect(
      apart <= allowed_from(own) || within_error(), "log_probability",
      [&] { return fmt::format("token {} has the log-probability {:.6g} {}", token, own, with.to); },
      [&] { return fmt::format("{:.6g}", stated); });
}

}  // namespace

void hold_logprobs(const ReplayedRound& r, std::size_t row, const KnownRow& known) {
  const RoundEvent& round = r.round;
  const RealRow* const top = row < round.top_logprobs.size() ? &round.top_logprobs[row] : nullptr;
  const bool stated = row < round.logprobs.size();
  if (top == nullptr && !stated) return;
  const Token emitted = round.emitted[row];
  if (top != nullptr) {
    double sum = 0;
    for (const double log : top->weights) sum += exp64(log);
    r.findings.expect(
        sum <= 1 + 16 * r.header.unit * static_cast<double>(top->weights.size() + 1), "log_probability",
        [] { return std::string("probabilities add up to at most 1"); }, [&] { return std::to_string(sum); });
  }
  bool held = false;
  const auto hold_all = [&](const auto& own_of, const Comparand& with, const ExactLogprob& exact_of) {
    held = true;
    if (stated) expect_logprob(r, emitted, round.logprobs[row], own_of(emitted), with, exact_of);
    for (std::size_t i = 0; top != nullptr && i < top->tokens.size(); ++i) {
      expect_logprob(r, top->tokens[i], top->weights[i], own_of(top->tokens[i]), with, exact_of);
    }
  };
  const bool after_sampling = r.sequence.declared.logprobs_after_sampling;
  const bool of_row = after_sampling || r.sequence.draws_from_softmax();
  const bool has_reals = row < round.p_reals.size();
  if (of_row && (has_reals || known.p)) {
    const auto in_row = [&](Token token) {
      return log64(has_reals ? round.p_reals[row].weight(token)
                             : static_cast<double>(known.p->weight(token)) / static_cast<double>(Distribution::total));
    };
    // Rows of another program, which take the place of a target.
    hold_all(in_row, {r.target.vocabulary == 0 ? r.target.slack : 0, r.header.weight_min(), "in its row"}, {});
  }
  const bool unmeasured = r.target.slack_from_tokens > 0 && r.rows.is_foreign(round.sequence);
  if (const auto logits = after_sampling || unmeasured ? std::nullopt : r.rows.logits(r.sequence)) {
    const double slack = r.rows.is_foreign(round.sequence) ? r.target.slack : 0;
    const auto reference = [&](Token token) { return log_probability(*logits, token); };
    hold_all(reference, {slack, nothing, "by the target"}, [&](Token token) -> std::optional<double> {
      const std::vector<double>* const exact = r.rows.exact_logits(r.sequence);
      if (exact == nullptr) return std::nullopt;
      return log_probability(std::span(*exact), token);
    });
  }
  if (stated && top != nullptr && std::binary_search(top->tokens.begin(), top->tokens.end(), emitted)) {
    held = true;
    expect_logprob(r, emitted, round.logprobs[row], top->weight(emitted), {0, nothing, "in top_logprobs"}, {});
  }
  if (!held && stated) r.findings.unread("logprobs", "there is no row to compare log-probabilities with");
  if (!held && top != nullptr && !r.sequence.distribution_of_top(round, row, r.header)) {
    r.findings.unread("top_logprobs",
                      "there is no row to compare log-probabilities with, and they are not of the distribution that "
                      "tokens are drawn from");
  }
}

}  // namespace draftproof::spectrace
