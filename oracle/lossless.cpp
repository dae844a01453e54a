// SPDX-License-Identifier: MIT
#include "oracle/lossless.h"

#include <algorithm>

#include "oracle/check.h"

namespace draftproof {
namespace {

/// A run that is over, as something that can be asked for it.
class FinishedRun final : public Subject {
 public:
  FinishedRun(const Trace& trace, Model& target) : trace_(trace), target_(target) {}
  Trace run_watched(const Request&, const Variation&, Chance&, const AfterRound&) override { return trace_; }
  Model& target(const Variation&) override { return target_; }
  std::string numerics(const Variation&) override { return "of the target"; }

 private:
  const Trace& trace_;
  Model& target_;
};

}  // namespace

Losslessness examine(const Trace& trace, Model& target, const Rule& rule, std::uint64_t seed) {
  const auto any = [&](const auto& holds) { return std::any_of(trace.rounds.begin(), trace.rounds.end(), holds); };
  if (!any([](const Round& round) { return round.proposal.size() > 0; })) {
    return {false, "no guess was made, so speculation was not put to the test"};
  }
  if (any([](const Round& round) { return round.logits.empty(); })) {
    return {false, "rounds come without digests of their rows; record the run with Recording::digests"};
  }
  FinishedRun subject(trace, target);
  Variation variation;
  variation.draft = "of the trace";
  variation.rule = &rule;
  variation.kernels = trace.kernels;
  variation.threads = std::max(1, trace.threads);
  variation.prompt_rows = trace.request.prompt_rows;
  variation.verification = trace.request.verification;
  Trial trial(subject, trace.request, seed, {variation});
  std::string looked_at;
  // The checks that ask about one run only; causality is the target's, independence of several runs.
  for (const auto check :
       {check_tokens_equal, check_logits_equal, check_verdict_justified, check_forgetting, check_budget}) {
    const Finding finding = check(trial);
    if (finding.outcome == Outcome::fail) return {false, finding.check + ": " + finding.sentence};
    if (finding.outcome == Outcome::pass) looked_at += (looked_at.empty() ? "" : ", ") + finding.sentence;
  }
  return {true, looked_at};
}

}  // namespace draftproof
