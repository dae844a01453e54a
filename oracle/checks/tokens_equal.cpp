// SPDX-License-Identifier: MIT
#include <algorithm>

#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

/// Returns why the run must have plain decoding's tokens; nullptr where only the distribution is promised, which is so
/// under `rejection` unless nothing was drafted.
const char* promise_of(const Request& request, const Run& run) {
  if (request.sampling.greedy()) return "both take the most likely token, so nothing is drawn";
  if (run.variation.promises_tokens()) {
    return "by the rule both draw with the random number keyed by position and purpose target";
  }
  const auto& rounds = run.trace.rounds;
  const bool nothing_drafted =
      std::all_of(rounds.begin(), rounds.end(), [](const Round& round) { return round.proposal.size() == 0; });
  return nothing_drafted ? "nothing was drafted, so every token is the target's draw under its key" : nullptr;
}

Finding examine_tokens_equal(Trial& trial) {
  Examination examination(tokens_equal);
  int compared = 0;
  for (const Run& run : trial.runs) {
    const char* const promise = promise_of(trial.request, run);
    if (promise == nullptr) continue;
    ++compared;
    const PlainRun& expected = trial.plain_run(run.variation);
    const auto& found = run.trace.output;
    const std::size_t common = std::min(expected.output.size(), found.size());
    std::size_t at = 0;
    while (at < common && expected.output[at] == found[at]) ++at;
    const bool equal = examination.expect(at == expected.output.size() && at == found.size(), [&] {
      const auto token = [&](const std::vector<Token>& tokens) {
        return at < tokens.size() ? "token " + std::to_string(tokens[at]) : std::string("the end");
      };
      return make_failure(
          run.variation, round_that_emitted(run.trace, at), static_cast<std::int64_t>(trial.request.prompt.size() + at),
          "plain decoding emits " + token(expected.output), "output " + std::to_string(at) + " is " + token(found),
          {"the text before the position is the same in both", promise});
    });
    if (equal) {
      examination.expect(run.trace.finish == expected.finish, [&] {
        return make_failure(
            run.variation, -1, -1, std::string("plain decoding is finished by ") + name_of(expected.finish),
            std::string("finished by ") + name_of(run.trace.finish), {"the whole text is the same in both"});
      });
    }
  }
  return std::move(examination).finding(std::to_string(compared) + " runs equal plain decoding");
}

}  // namespace

const Check tokens_equal = {
    "tokens_equal",
    "the tokens are those of plain decoding: greedy, under `matching` at any temperature, and without draft tokens",
    "the rule, the decode loop, the KV caches, the target's pass over several rows, sampling parameters on "
    "verification rows, keys of random draws",
    "which tokens the draft proposes, because they may not change the text; the model, the conversion of logits to a "
    "distribution and the random generator, which plain decoding shares",
    examine_tokens_equal,
    [](const TrialCosts& trial) { return trial.plain_rows; }};

}  // namespace draftproof
