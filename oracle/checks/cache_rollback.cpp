// SPDX-License-Identifier: MIT
#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

Finding examine_cache_rollback(Trial& trial) {
  Examination examination(cache_rollback);
  long caches = 0;
  bool any_rejected = false;
  for (const Run& run : trial.runs) {
    std::vector<Token> text = trial.request.prompt;
    text.insert(text.end(), run.trace.output.begin(), run.trace.output.end());
    if (run.trace.rounds.empty()) continue;
    const auto& expected = trial.cache_along(run.variation, text);
    std::size_t length = trial.request.prompt.size() - 1;
    std::int64_t at = 0;
    for (const Round& round : run.trace.rounds) {
      // The anchor is about to be read: a full context has been shifted.
      const int before = trial.positions_after(static_cast<int>(length) + 1) - 1;
      examination.expect(round.positions_before == before, [&] {
        return make_failure(run.variation, at, round.position,
                            "before the round the cache holds " + std::to_string(before) + " positions",
                            "it holds " + std::to_string(round.positions_before) + " positions",
                            {"the text before the anchor has " + std::to_string(length) + " tokens"});
      });
      length += round.emitted.size();
      ++caches;
      any_rejected = any_rejected || static_cast<int>(round.emitted.size()) <= round.proposal.size();
      const auto fail = [&](const std::string& wanted, const std::string& found) {
        return make_failure(
            run.variation, at, round.position, wanted, found,
            {"the text so far has " + std::to_string(length + 1) + " tokens, the last of which is not read yet",
             std::to_string(round.proposal.size()) + " draft tokens were read in the round, " +
                 std::to_string(round.accepted) + " were accepted"});
      };
      const int positions = trial.positions_after(static_cast<int>(length));
      examination.expect(round.cache_length == positions, [&] {
        return fail("after the round the cache holds " + std::to_string(positions) + " positions",
                    "it holds " + std::to_string(round.cache_length) + " positions");
      });
      examination.expect(length < expected.size() && round.cache == expected[length], [&] {
        return fail("after the round the cache equals that of a run that read only the accepted text" +
                        (length < expected.size() ? ", " + expected[length].hex() : ""),
                    "the cache differs: " + round.cache.hex());
      });
      ++at;
    }
    const int final_length = run.trace.final_length;
    const int read = static_cast<int>(text.size()) - 1;
    const int tokens_read = final_length + read - trial.positions_after(read);  // and what was dropped
    const bool known = tokens_read >= 0 && tokens_read < static_cast<int>(expected.size());
    examination.expect(known && run.trace.final_cache == expected[tokens_read], [&] {
      return make_failure(run.variation, -1, -1,
                          "the final cache equals that of a run that read only the text" +
                              (known ? ", " + expected[tokens_read].hex() : ""),
                          "the cache differs: " + run.trace.final_cache.hex(),
                          {"the run ends with " + std::to_string(final_length) + " positions in the cache"});
    });
  }
  return std::move(examination)
      .finding(std::to_string(caches) + " caches equal fresh ones",
               any_rejected ? "" : "no draft token was rejected, so nothing was rolled back");
}

}  // namespace

const Check cache_rollback = {
    "cache_rollback",
    "after every round the KV cache equals that of a run that never read the rejected draft tokens",
    "the KV caches: what a sliding window keeps, what is rolled back, where the cache ends; what the target's pass "
    "writes",
    "the rule, the draft and random draws, because caches are compared after the run's own text",
    examine_cache_rollback,
    [](const TrialCosts& trial) { return trial.texts * trial.plain_run; }};

}  // namespace draftproof
