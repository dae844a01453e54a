// SPDX-License-Identifier: MIT
#include "oracle/checks/check.h"

namespace draftproof {

Finding check_cache_rollback(Trial& trial) {
  Examination examination("cache_rollback");
  long caches = 0;
  bool refused = false;
  for (const Run& run : trial.runs) {
    std::vector<Token> text = trial.request.prompt;
    text.insert(text.end(), run.trace.output.begin(), run.trace.output.end());
    if (run.trace.rounds.empty()) continue;
    const auto& expected = trial.cache_along(run.variation, text);
    std::size_t length = trial.request.prompt.size() - 1;
    std::int64_t at = 0;
    for (const Round& round : run.trace.rounds) {
      length += round.emitted.size();
      ++caches;
      refused = refused || static_cast<int>(round.emitted.size()) <= round.proposal.size();
      const auto fail = [&](const std::string& wanted, const std::string& found) {
        return failure_of(run.variation, at, round.position, wanted, found,
                          {"the text kept so far is " + std::to_string(length + 1) +
                               " tokens, of which the last is not read yet",
                           std::to_string(round.proposal.size()) + " draft tokens were read in the round, " +
                               std::to_string(round.accepted) + " were kept"});
      };
      examination.expect(round.cache_length == static_cast<int>(length), [&] {
        return fail("after the round the cache holds " + std::to_string(length) + " positions",
                    "it holds " + std::to_string(round.cache_length) + " positions");
      });
      examination.expect(length < expected.size() && round.cache == expected[length], [&] {
        return fail("after the round the cache is that of a run that only ever saw the kept text" +
                        (length < expected.size() ? ", " + expected[length].hex() : ""),
                    "the cache differs: " + round.cache.hex());
      });
      ++at;
    }
    const int resting = run.trace.final_length;
    const bool known = resting >= 0 && resting < static_cast<int>(expected.size());
    examination.expect(known && run.trace.final_cache == expected[static_cast<std::size_t>(resting)], [&] {
      return failure_of(run.variation, -1, -1,
                        "at rest the cache is that of a run that only ever saw the text" +
                            (known ? ", " + expected[static_cast<std::size_t>(resting)].hex() : ""),
                        "the cache differs: " + run.trace.final_cache.hex(),
                        {"the run rests at " + std::to_string(resting) + " positions"});
    });
  }
  return std::move(examination).finding(std::to_string(caches) + " caches equal fresh ones",
                                        refused ? "" : "no draft token was refused, so there was nothing to forget");
}

}  // namespace draftproof
