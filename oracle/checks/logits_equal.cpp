// SPDX-License-Identifier: MIT
#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

Finding examine_logits_equal(Trial& trial) {
  Examination examination(logits_equal);
  long rows = 0;
  for (const Run& run : trial.runs) {
    std::vector<Token> text = trial.request.prompt;
    std::int64_t at = -1;
    for (const Round& round : run.trace.rounds) {
      ++at;
      for (std::size_t j = 0; j < round.emitted.size(); ++j) {
        const PlainRow& expected = trial.row_after(run.variation, text);
        ++rows;
        examination.expect(j < round.logits.size() && round.logits[j] == expected.logits, [&] {
          return make_failure(run.variation, at, static_cast<std::int64_t>(text.size()),
                              "the row that decides this token has logits " + expected.logits.hex(),
                              "row " + std::to_string(j) + " of the verification has " +
                                  (j < round.logits.size() ? "other bits: " + round.logits[j].hex() : "no digest"),
                              {"the text before the position is the same in both"});
        });
        text.push_back(round.emitted[j]);
      }
    }
  }
  return std::move(examination).finding(std::to_string(rows) + " rows have the same bits as in plain decoding");
}

}  // namespace

const Check logits_equal = {
    "logits_equal",
    "every row that decided a token has the same bits as in plain decoding",
    "the target's pass over several rows: positions, masks, kernels, threads; the KV caches it reads",
    "the rule, the draft, sampling parameters and random draws, because rows are compared after the run's own text",
    examine_logits_equal,
    [](const TrialCosts& trial) { return (trial.texts - 1) * trial.plain_rows; }};

}  // namespace draftproof
