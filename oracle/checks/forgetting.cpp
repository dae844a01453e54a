// SPDX-License-Identifier: MIT
#include "oracle/check.h"

namespace draftproof {

Finding check_forgetting(Trial& trial) {
  Examination examination("forgetting");
  long caches = 0;
  bool refused = false;
  for (const Run& run : trial.runs) {
    std::vector<Token> text = trial.request.prompt;
    text.insert(text.end(), run.trace.output.begin(), run.trace.output.end());
    if (run.trace.rounds.empty()) continue;
    const auto& expected = trial.cache_along(run.variation, text);
    std::size_t length = trial.request.prompt.size() - 1;
    for (const Round& round : run.trace.rounds) {
      length += round.emitted.size();
      ++caches;
      refused = refused || static_cast<int>(round.emitted.size()) <= round.proposal.size();
      const auto where = [&] {
        return run.variation.describe() + ": after the round at position " + std::to_string(round.position);
      };
      examination.expect(round.cache_length == static_cast<int>(length), [&] {
        return where() + " the cache holds " + std::to_string(round.cache_length) + " positions instead of " +
               std::to_string(length);
      });
      examination.expect(length < expected.size() && round.cache == expected[length], [&] {
        return where() + " the cache differs from one that only ever saw the kept text";
      });
    }
  }
  return std::move(examination).finding(std::to_string(caches) + " caches equal fresh ones",
                                        refused ? "" : "no guess was refused, so there was nothing to forget");
}

}  // namespace draftproof
