// SPDX-License-Identifier: MIT
#include <algorithm>

#include "oracle/checks/check.h"

namespace draftproof {

Finding check_tokens_equal(Trial& trial) {
  Examination examination("tokens_equal");
  int compared = 0;
  for (const Run& run : trial.runs) {
    // Under `rejection` the promise is the law; the very tokens are promised only where nothing was drafted.
    const auto& rounds = run.trace.rounds;
    const bool nothing_drafted =
        std::all_of(rounds.begin(), rounds.end(), [](const Round& round) { return round.proposal.size() == 0; });
    const bool promised =
        trial.request.sampling.greedy() || run.variation.promises_tokens() || nothing_drafted;
    if (!promised) continue;
    const char* const promise =
        trial.request.sampling.greedy()   ? "both take the best token, so no random answer enters"
        : run.variation.promises_tokens() ? "by the rule both draw with the number keyed by position and purpose target"
                                          : "nothing was drafted, so every token is the target's draw by its key";
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
      return failure_of(run.variation, round_that_emitted(run.trace, at),
                        static_cast<std::int64_t>(trial.request.prompt.size() + at),
                        "plain decoding says " + token(expected.output),
                        "output " + std::to_string(at) + " is " + token(found),
                        {"the text before the position is the same in both", promise});
    });
    if (equal) {
      examination.expect(run.trace.finish == expected.finish, [&] {
        return failure_of(run.variation, -1, -1,
                          std::string("plain decoding is finished by ") + name_of(expected.finish),
                          std::string("finished by ") + name_of(run.trace.finish),
                          {"the whole text is the same in both"});
      });
    }
  }
  return std::move(examination).finding(std::to_string(compared) + " runs equal plain decoding");
}

}  // namespace draftproof
