// SPDX-License-Identifier: MIT
#include "oracle/lossless.h"

#include <algorithm>
#include <span>
#include <utility>

#include "oracle/checks/check.h"

namespace draftproof {
namespace {

/// A run that is over, as something that can be asked for it.
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

std::string outside(const char* what, std::span<const Token> tokens, const Model& target) {
  for (const Token token : tokens) {
    if (token >= 0 && token < target.vocabulary()) continue;
    return std::string(what) + " token " + std::to_string(token) + " lies outside the target's vocabulary of " +
           std::to_string(target.vocabulary());
  }
  return "";
}

std::string beyond(const char* what, std::size_t positions, const Model& target) {
  if (positions <= static_cast<std::size_t>(target.context())) return "";
  return std::string(what) + " needs " + std::to_string(positions) + " positions, the target has " +
         std::to_string(target.context());
}

/// Why the draft tokens are no tree, or what stands no way down it.
std::string no_way(const Proposal& proposal, const Verdict& verdict) {
  const int size = proposal.size();
  if (!proposal.is_chain() && proposal.depths.size() != proposal.tokens.size()) {
    return std::to_string(size) + " draft tokens come with " + std::to_string(proposal.depths.size()) + " depths";
  }
  for (int draft_token = 0; draft_token < size; ++draft_token) {
    const int depth = proposal.depth(draft_token);
    if (depth >= 0 && depth <= proposal.depth(draft_token - 1) + 1) continue;
    return "draft token " + std::to_string(draft_token) + " has depth " + std::to_string(depth) +
           ", where no draft token before it can be followed";
  }
  if (verdict.last >= -1 && verdict.last < size && proposal.depth(verdict.last) + 1 == verdict.accepted) return "";
  return std::to_string(verdict.accepted) + " draft tokens stand and draft token " + std::to_string(verdict.last) +
         " is the last of them, which is no way down " + std::to_string(size) + " draft tokens";
}

/// What no run over this target can have recorded, wherever the trace is from; empty when there is nothing. The checks
/// ask the target about tokens of the trace and go down its trees.
std::string impossible(const Trace& trace, const Model& target) {
  const Request& request = trace.request;
  if (request.prompt.empty()) return "the prompt is empty";
  if (request.max_new_tokens < 0) return "the number of new tokens is negative";
  const std::size_t prompt = request.prompt.size();
  for (const std::string& wrong :
       {outside("prompt", request.prompt, target), outside("output", trace.output, target),
        beyond("the request", prompt + static_cast<std::size_t>(request.max_new_tokens), target),
        beyond("the output", prompt + trace.output.size(), target)}) {
    if (!wrong.empty()) return wrong;
  }
  std::size_t text = prompt;
  for (std::size_t at = 0; at < trace.rounds.size(); ++at) {
    const Round& round = trace.rounds[at];
    const std::size_t longest = std::max(round.emitted.size(), round.proposal.tokens.size());
    for (const std::string& wrong :
         {outside("drafted", round.proposal.tokens, target), outside("emitted", round.emitted, target),
          outside("the verdict's", std::span(&round.verdict.next, 1), target),
          beyond("what is drafted or emitted", text + longest, target), no_way(round.proposal, round.verdict)}) {
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
    return {false, "no draft token was made, so speculation was not put to the test"};
  }
  if (any([](const Round& round) { return round.logits.empty(); })) {
    return {false, "rounds come without digests of their rows; record the run with Recording::digests"};
  }
  if (const std::string wrong = impossible(trace, target); !wrong.empty()) return {false, wrong};
  FinishedRun subject(trace, target);
  Variation variation;
  variation.draft = "of the trace";
  variation.rule = &rule;
  variation.kernels = trace.kernels;
  variation.threads = std::max(1, trace.threads);
  variation.prefill_chunk = trace.request.prefill_chunk;
  variation.verification = trace.request.verification;
  Trial asked(subject, trace.request, seed, {variation});
  // Plain decoding goes as far as the output does; that the output goes as far as was asked is for `budget` to say.
  Request said = trace.request;
  said.max_new_tokens = std::min(said.max_new_tokens, static_cast<int>(trace.output.size()));
  Trial trial(subject, said, seed, {variation});
  // The checks that ask about one run only; causality is the target's, independence of several runs.
  const std::pair<Finding (*)(Trial&), Trial&> checks[] = {{check_tokens_equal, trial},
                                                           {check_logits_equal, trial},
                                                           {check_acceptance_correct, trial},
                                                           {check_cache_rollback, trial},
                                                           {check_termination_and_counters, asked}};
  std::string looked_at;
  bool tokens_follow = false;  // from what the target says, by one of the two checks of it
  std::string missing;
  for (const auto& [check, of] : checks) {
    const Finding finding = check(of);
    const bool passed = finding.outcome == Outcome::pass;
    if (finding.outcome == Outcome::fail) return {false, finding.check + ": " + finding.message};
    if (passed) looked_at += (looked_at.empty() ? "" : ", ") + finding.message;
    if (check != check_tokens_equal && check != check_acceptance_correct) continue;
    tokens_follow = tokens_follow || passed;
    if (!passed) missing = finding.message;
  }
  if (!tokens_follow) return {false, missing};
  return {true, looked_at};
}

}  // namespace draftproof
