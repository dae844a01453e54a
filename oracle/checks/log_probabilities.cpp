// SPDX-License-Identifier: MIT
// Requests logprobs, which the decode loop serves without draft tokens. The text must be plain decoding's, and each
// logprob is recomputed from the row of its token, to the bit.
#include <algorithm>
#include <set>

#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

Finding examine_log_probabilities(Trial& trial) {
  Examination examination(log_probabilities);
  std::set<std::pair<std::string, int>> seen;  // one run per kernel table and number of threads
  long compared = 0;
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
    const auto output_text = [&](std::size_t i) {
      return i < trace.output.size() ? "token " + std::to_string(trace.output[i]) : std::string("the end");
    };
    for (std::size_t i = 0; i < expected.output.size(); ++i) {
      const bool emitted = i < trace.rounds.size() && trace.rounds[i].emitted == std::vector{expected.output[i]};
      const bool equal = examination.expect(emitted, [&] {
        return failure_of(variation, static_cast<std::int64_t>(i),
                          static_cast<std::int64_t>(request.prompt.size() + i),
                          "plain decoding emits token " + std::to_string(expected.output[i]),
                          "with logprobs requested, the round does not emit that one token: output " +
                              std::to_string(i) + " is " + output_text(i),
                          {"the text before the position is the same in both", "nothing is drafted"});
      });
      if (!equal) break;
      const Round& round = trace.rounds[i];
      ++compared;
      examination.expect(round.logprob == expected.logprobs[i], [&] {
        return failure_of(variation, static_cast<std::int64_t>(i), round.position,
                          "token " + std::to_string(expected.output[i]) + " has logprob " +
                              std::to_string(expected.logprobs[i]) + " in the target's row",
                          "the reported logprob is " + std::to_string(round.logprob),
                          {"text and token are the same in both", "neither penalties nor temperature apply"});
      });
    }
  }
  return std::move(examination).finding(std::to_string(compared) + " logprobs are those of the target's rows");
}

}  // namespace

const Check log_probabilities = {
    "log_probabilities",
    "every reported logprob is that of plain decoding's token in the target's row",
    "the row a logprob is read from, penalties or temperature applied to it, its arithmetic; where the token itself "
    "differs, the decoding without draft tokens that serves logprobs",
    "the draft, the rule and verification, because nothing is drafted",
    examine_log_probabilities};

}  // namespace draftproof
