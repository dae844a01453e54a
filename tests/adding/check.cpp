// SPDX-License-Identifier: MIT
// The walk of docs/adding.md: a check. A run has as many tokens as its rounds emit.
#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

Finding examine(Trial& trial) {
  Examination examination(tokens_of_rounds);
  for (const Run& run : trial.runs) {
    std::size_t emitted = 0;
    for (const Round& round : run.trace.rounds) emitted += round.emitted.size();
    examination.expect(emitted == run.trace.output.size(), [&] {
      return make_failure(run.variation, -1, -1, std::to_string(run.trace.output.size()), std::to_string(emitted), {});
    });
  }
  return std::move(examination).finding("every token is one of a round");
}

}  // namespace

const Check tokens_of_rounds = {"tokens_of_rounds",
                                "the rounds of a run emit its tokens",
                                "the record of a run",
                                "the model",
                                examine,
                                [](const TrialCosts&) { return 0.0; }};

}  // namespace draftproof
