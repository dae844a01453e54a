// SPDX-License-Identifier: MIT
#include "oracle/spectrace/logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

void expect_logprob(const ReplayedRound& r, Token token, double stated, double own, const Comparand& with) {
  const double of_own = exp64(own);
  const double rounding = of_own > 0 ? 16 * r.header.unit * of_own * std::max(1.0, -own) : 0;
  const double apart = std::fabs(exp64(stated) - of_own);
  if (with.slack > 0) r.report.furthest_logprob = std::max(r.report.furthest_logprob.value_or(0), apart);
  r.findings.expect(
      apart <= with.slack + rounding + with.min, "log_probability",
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
  const auto hold_all = [&](const auto& own_of, const Comparand& with) {
    held = true;
    if (stated) expect_logprob(r, emitted, round.logprobs[row], own_of(emitted), with);
    for (std::size_t i = 0; top != nullptr && i < top->tokens.size(); ++i) {
      expect_logprob(r, top->tokens[i], top->weights[i], own_of(top->tokens[i]), with);
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
    hold_all(in_row, {r.target.vocabulary == 0 ? r.target.slack : 0, r.header.weight_min(), "in its row"});
  }
  if (const auto logits = after_sampling ? std::nullopt : r.rows.logits(r.sequence)) {
    const double slack = r.rows.is_foreign(round.sequence) ? r.target.slack : 0;
    hold_all([&](Token token) { return log_probability(*logits, token); }, {slack, nothing, "by the target"});
  }
  if (stated && top != nullptr && std::binary_search(top->tokens.begin(), top->tokens.end(), emitted)) {
    held = true;
    expect_logprob(r, emitted, round.logprobs[row], top->weight(emitted), {0, nothing, "in top_logprobs"});
  }
  if (!held && stated) r.findings.unread("logprobs", "there is no row to compare log-probabilities with");
  if (!held && top != nullptr && !r.sequence.distribution_of_top(round, row, r.header)) {
    r.findings.unread("top_logprobs",
                      "there is no row to compare log-probabilities with, and they are not of the distribution that "
                      "tokens are drawn from");
  }
}

}  // namespace draftproof::spectrace
