// SPDX-License-Identifier: MIT
#include "oracle/lossless.h"

#include <algorithm>
#include <span>
#include <utility>

#include "oracle/checks/checks.h"
#include "ref/models/read_text.h"

namespace draftproof {
namespace {

/// A subject whose every run is the given, finished one.
class FinishedRun final : public Subject {
 public:
  FinishedRun(const Trace& trace, Model& target) : trace_(trace), target_(target) {}
  Trace run_with_callback(const Request&, const Variation&, RandomSource&, const OnRound&) override { return trace_; }
  Model& target(const Variation&) override { return target_; }
  std::string numerics(const Variation&) override { return "of the target"; }

 private:
  const Trace& trace_;
  Model& target_;
};

/// Returns an error message for a token outside the vocabulary; empty when there is none.
std::string outside(const char* what, std::span<const Token> tokens, const Model& target) {
  for (const Token token : tokens) {
    if (token >= 0 && token < target.vocabulary()) continue;
    return std::string(what) + " token " + std::to_string(token) + " lies outside the target's vocabulary of " +
           std::to_string(target.vocabulary());
  }
  return "";
}

std::string beyond(const char* what, std::size_t positions, const Request& request, const Model& target) {
  const int max = request.context_shift ? Request::text_max : target.context();
  if (positions <= static_cast<std::size_t>(max)) return "";
  return std::string(what) + " needs " + std::to_string(positions) + " positions, " +
         (request.context_shift ? "a text can have " : "the target has ") + std::to_string(max);
}

/// Returns why the draft tokens are no tree, or the accepted ones no path in it; empty when they are.
std::string no_path(const Proposal& proposal, const Verdict& verdict) {
  const int size = proposal.size();
  if (!proposal.is_chain() && proposal.depths.size() != proposal.tokens.size()) {
    return std::to_string(size) + " draft tokens come with " + std::to_string(proposal.depths.size()) + " depths";
  }
  for (int node = 0; node < size; ++node) {
    const int depth = proposal.depth(node);
    if (depth >= 0 && depth <= proposal.depth(node - 1) + 1) continue;
    return "draft token " + std::to_string(node) + " has depth " + std::to_string(depth) +
           ", but no draft token before it can be its parent";
  }
  if (verdict.last >= -1 && verdict.last < size && proposal.depth(verdict.last) + 1 == verdict.accepted) return "";
  return std::to_string(verdict.accepted) + " draft tokens are accepted, the last of them draft token " +
         std::to_string(verdict.last) + ", which is no path through " + std::to_string(size) + " draft tokens";
}

/// Returns what no run of this target can have recorded; empty when there is nothing. The checks pass tokens of the
/// trace to the target and walk its trees, so these must be valid.
std::string impossible(const Trace& trace, const Model& target) {
  const Request& request = trace.request;
  if (request.prompt.empty()) return "the prompt is empty";
  if (request.max_new_tokens < 0) return "the number of new tokens is negative";
  const std::size_t prompt = request.prompt.size();
  for (const std::string& wrong :
       {outside("prompt", request.prompt, target), outside("output", trace.output, target),
        request.context_shift ? context_shift_error(*request.context_shift, target) : std::string(),
        beyond("the request", prompt + static_cast<std::size_t>(request.max_new_tokens), request, target),
        beyond("the output", prompt + trace.output.size(), request, target)}) {
    if (!wrong.empty()) return wrong;
  }
  std::size_t text = prompt;
  for (std::size_t at = 0; at < trace.rounds.size(); ++at) {
    const Round& round = trace.rounds[at];
    const std::size_t longest = std::max(round.emitted.size(), round.proposal.tokens.size());
    for (const std::string& wrong :
         {outside("drafted", round.proposal.tokens, target), outside("emitted", round.emitted, target),
          outside("the verdict's", std::span(&round.verdict.next, 1), target),
          beyond("the drafted or emitted text", text + longest, request, target),
          no_path(round.proposal, round.verdict)}) {
      if (!wrong.empty()) return "round " + std::to_string(at) + ": " + wrong;
    }
    text += round.emitted.size();
  }
  return "";
}

}  // namespace

Losslessness examine(const Trace& trace, Model& target, const Rule& rule, std::uint64_t seed) {
  const auto any = [&](const auto& holds) { return std::any_of(trace.rounds.begin(), trace.rounds.end(), holds); };
  if (!any([](const Round& round) { return round.proposal.size() > 0; })) {
    return {false, "nothing was drafted, so speculative decoding was not tested"};
  }
  if (any([](const Round& round) { return round.logits.empty(); })) {
    return {false, "rounds have no digests of their rows; record the run with Recording::digests"};
  }
  if (const std::string wrong = impossible(trace, target); !wrong.empty()) return {false, wrong};
  FinishedRun subject(trace, target);
  Variation variation;
  variation.draft = "of the trace";
  variation.rule = &rule;
  variation.kernels = trace.kernels;
  variation.threads = std::max(1, trace.threads);
  static_cast<Execution&>(variation) = trace.execution;
  Trial asked(subject, trace.request, seed, {variation});
  // Plain decoding decodes as many tokens as the output has. Whether the output has as many as requested is examined by
  // termination_and_counters, in the trial `asked`.
  Request emitted = trace.request;
  emitted.max_new_tokens = std::min(emitted.max_new_tokens, static_cast<int>(trace.output.size()));
  Trial trial(subject, emitted, seed, {variation});
  // The checks of a single run. batch_invariance is about the target, config_invariance about several runs.
  const std::pair<const Check*, Trial&> checks[] = {{&tokens_equal, trial},
                                                    {&logits_equal, trial},
                                                    {&acceptance_correct, trial},
                                                    {&cache_rollback, trial},
                                                    {&termination_and_counters, asked}};
  std::string examined;
  bool tokens_follow = false;  // from the target, by tokens_equal or acceptance_correct
  std::string missing;
  for (const auto& [check, of] : checks) {
    const Finding finding = check->examine(of);
    const bool passed = finding.outcome == Outcome::pass;
    if (finding.outcome == Outcome::fail) return {false, finding.check + ": " + finding.message};
    if (passed) examined += (examined.empty() ? "" : ", ") + finding.message;
    if (check != &tokens_equal && check != &acceptance_correct) continue;
    tokens_follow = tokens_follow || passed;
    if (!passed) missing = finding.message;
  }
  if (!tokens_follow) return {false, missing};
  return {true, examined};
}

}  // namespace draftproof
