// SPDX-License-Identifier: MIT
// Asks for log-probabilities, which plain decoding serves: the text must be plain decoding's, and each is computed
// again from the row before its token, to the bit.
#include <algorithm>
#include <set>

#include "oracle/checks/check.h"

namespace draftproof {

Finding check_log_probabilities(Trial& trial) {
  Examination examination("log_probabilities");
  std::set<std::pair<std::string, int>> seen;  // one run per way of computing
  long told = 0;
  for (const Run& run : trial.runs) {
    if (!seen.emplace(run.variation.kernels, run.variation.threads).second) continue;
    Variation variation;
    variation.rule = run.variation.rule;
    variation.kernels = run.variation.kernels;
    variation.threads = run.variation.threads;
    Request request = trial.request;
    request.logprobs = true;
    PhiloxSource random(trial.seed);
    const Trace trace = trial.subject.run(request, variation, random);
    const PlainRun& expected = trial.plain_run(variation);
    const auto said = [&](std::size_t i) {
      return i < trace.output.size() ? "token " + std::to_string(trace.output[i]) : std::string("the end");
    };
    for (std::size_t i = 0; i < expected.output.size(); ++i) {
      const bool there = i < trace.rounds.size() && trace.rounds[i].emitted == std::vector{expected.output[i]};
      const bool told_of = examination.expect(there, [&] {
        return failure_of(variation, static_cast<std::int64_t>(i),
                          static_cast<std::int64_t>(request.prompt.size() + i),
                          "plain decoding says token " + std::to_string(expected.output[i]),
                          "asked for log-probabilities, the round does not say that one token: output " +
                              std::to_string(i) + " is " + said(i),
                          {"the text before the position is the same in both", "no draft token is made"});
      });
      if (!told_of) break;
      const Round& round = trace.rounds[i];
      ++told;
      examination.expect(round.logprob == expected.logprobs[i], [&] {
        return failure_of(variation, static_cast<std::int64_t>(i), round.position,
                          "token " + std::to_string(expected.output[i]) + " has log-probability " +
                              std::to_string(expected.logprobs[i]) + " in the target's row",
                          "it is said to have log-probability " + std::to_string(round.logprob),
                          {"text and token are the same in both", "no penalty and no temperature enters"});
      });
    }
  }
  return std::move(examination).finding(std::to_string(told) + " log-probabilities are those of the target's rows");
}

}  // namespace draftproof
